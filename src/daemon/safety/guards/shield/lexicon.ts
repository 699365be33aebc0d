/**
 * The vocabulary of attacks, grouped by concept, so that new wordings and other languages are recognized. `word*` is a
 * prefix of words. `two_words` is an expression of several words. Entries have no accents, because accents are removed
 * from a text before it is compared. A word may have several concepts.
 */
export const LEXICON = {
  OVERRIDE: `ignor* disregard* forget forgets forgetting forgot forgotten neglect* overrid* overrule* bypass* circumvent* skip skipping
    omit* dismiss* discard* abandon* supersede* cancel* evade* sidestep* nullif* overwrit* wipe erase* violat* defy defies
    disobey* pay_no_attention set_aside get_rid_of leave_aside put_aside break_free do_not_follow don't_follow not_follow
    stop_following rather_than_following instead_of_following
    ignorier* vergiss vergessen missacht* uberschreib* umgeh* ubergeh* beachte_nicht beachtet_nicht nicht_beachten ausser_acht
    ignora* olvid* descart* omite* omitir pasa_por_alto no_sigas salta* desobedec*
    oubli* negliger neglige* ne_tiens_pas contourn* outrepass* fais_abstraction ne_suis_pas
    dimentica* scorda* trascur* tralascia* esquec* desconsider* desrespeit* burla*
    negeer* vergeet zignoruj* ignoruj* zapomnij* pomin* unut yoksay* gormezden_gel abaikan lupakan bo_qua
    игнорир* проигнорир* забудь* забыть отбрось* пренебрег* обойди* обойти нарушь* не_обращай
    忽略 无视 忘记 忘掉 忽視 無視 忘記 绕过 繞過 不要理会 不用管 不要遵守 不理会 放弃 推翻 覆盖
    無視して 忘れて 忘れ 無視 取り消 従わない 무시 잊어 잊고 무시하 따르지
    تجاهل انس انسى تجاوز التغاضي התעלם תתעלם שכח अनदेखा भूल_जाओ भूल_जाइए नजरअंदाज`,
  PRIOR: `previous* prior preceding earlier above before past foregoing existing initial initially original
    originally already beforehand aforementioned former previously so_far up_to_now until_now hitherto until_this_point up_to_this_point
    vorherig* vorhergehend* bisherig* obig* fruher* oben vorangegangen* davor zuvor vorige*
    anterior* previo* previa* previos previas precedent* arriba hasta_ahora
    precedente* precedents anterieur* ci-dessus avant jusqu'ici precedemment
    sopra finora antes acima eerdere vorige bovenstaande poprzedni* wczesniejsz* onceki yukaridaki sebelumnya di_atas truoc
    предыдущ* прежн* прошл* ранее выше вышеуказан* до_этого
    之前 以前 先前 上面 以上 前面 此前 之前的 上述 前述 前の 以前の 上記 これまで これまでの 이전 앞의 위의 지금까지 기존
    السابقة السابق أعلاه ما_سبق הקודמות הקודם पिछले पिछली उपरोक्त पहले`,
  ALL: `all any every everything each whole entire completely totally fully alle* alles jede* samtliche* ganze* todo todos toda todas
    cualquier* tout toute tous toutes tutto tutti tutte qualsiasi tudo wszystk* tum tüm butun semua tat_ca
    все всё всех любые любых 所有 一切 全部 任何 すべて 全て 全部の 모든 모두 جميع كل כל सभी सब`,
  INSTR: `instruction* directive* command commands prompt prompts guidance guideline* order orders anweisung* instruktion* befehl*
    vorgabe* anordnung* aufforderung* eingabeaufforderung* instruccion* directriz directrices indicacion* mandato* consigne* directive*
    ordres istruzion* instruco* instrucao* orientac* comando* diretriz* instructie* opdracht* richtlijn* polecen* instrukcj* talimat* yonerge*
    instruksi perintah chi_thi huong_dan инструкци* указани* команд* приказ* промпт* директив*
    指令 指示 提示词 提示詞 提示语 命令 说明 指引 プロンプト 指示を 指示は 命令を 지시 명령 지침 프롬프트 التعليمات تعليمات الأوامر אוامر הוראות הנחיות निर्देश निर्देशों आदेश`,
  RULES: `rule rules policy policies regulation* regel regeln regla* reglas regle regles regole regras regels zasad* kural* aturan
    quy_tac правил* 规则 規則 政策 规定 ルール 規約 규칙 القواعد قواعد כללים नियम नियमों terms_of_service content_policy usage_policies content_policies`,
  LIMITS: `restriction* constraint* limitation* limits filter filters filtering safeguard* guardrail* censorship safety confines
    boundaries barrier* shackles einschrankung* beschrankung* filtern sicherheits* restriccion* limitacion* filtros limite*
    restrizion* restric* limitacoes ogranicz* kisitla* ограничени* фильтр* цензур* 限制 过滤 過濾 约束 審查 审查 束縛 束缚 制限 フィルター 制約 제한 제약 필터 القيود قيود הגבלות प्रतिबंध`,
  CONTEXT: `context conversation* text texts article* artikel* document* dokument* message messages information informationen email
    webpage content contents input inputs data statement* passage paragraph* chat history kontext nachricht* texto* contexto*
    mensaje* texte* documents 上下文 文本 内容 文章 对话 對話 текст* контекст* сообщени* 文章の 会話 대화 문서`,
  TASK: `task tasks assignment* job mission objective* goal goals purpose aufgabe* auftrag* tarea* objetivo* tache* mission*
    compito tarefa* taak zadani* gorev tugas задач* задани* 任务 任務 目标 タスク 課題 작업 임무 المهمة मिशन कार्य focus konzentrier* concentrate* concentrat*`,
  REVEAL: `reveal* disclos* expose* leak leaks leaking leaked divulg* betray* confess* unveil* uncover* spill give_away give_up let_slip
    offenbar* verrat* preisgeb* preisgib* enthull* aufdeck* revela* divulga* filtra muestrame revele* devoile* rivela* svela* onthul*
    ujawni* acikla* ungkapkan tiet_lo раскро* раскры* выдай* разглас* 泄露 透露 揭示 公开 洩露 漏らし 明かし 暴露 공개 누설 폭로 알려 اكشف الكشف חשוף תחשוף गुप्त प्रकट`,
  SHOW: `show shows print prints display* output outputs tell tells say says give gives write provide* repeat* recite* dump return
    returns list spell echo state type share summari* paraphras* translate* copy paste quote describe* explain* hint read
    zeig* zeige drucke gib sag sage schreib* nenn* wiederhol* ausgabe ausgeben ubersetz* erzahl* kopier* muestra* mostrar imprim* dime dame escrib* repite*
    repetir traduc* montre* affich* dis donne* ecri* repete* traduis* mostra* dimmi stampa* scrivi* ripeti* mostre diga escreva repita traduza toon schrijf herhaal zeg
    pokaz* napisz* powtorz* wypisz goster* yaz soyle tampilkan katakan tulis hien_thi
    покаж* напиш* скаж* выведи* вывести повтор* перечисли* назови* сообщи* 显示 顯示 告诉 告訴 打印 输出 輸出 说出 重复 重複 写 列出 翻译
    表示 教えて 出力 書いて 言って 繰り返し 보여 말해 출력 적어 써 반복 أخبرني اعرض اطبع اكتب قل الأظهار הצג הדפס כתוב अमר דגם תגיד बताओ बताइए दिखाओ लिखो`,
  SECRET: `password* passwort* passwoerter kennwort passphrase* passcode* secret secrets secretly confidential* credential* private_key api_key secret_key access_code
    flag codeword* code_word hidden geheim* contrasena* secreto* clave mot_de_passe secrete* cle parola_d'ordine segret* senha* segredo* wachtwoord*
    haslo hasla tajn* sifre* gizli kata_sandi rahasia mat_khau парол* секрет* 密码 密碼 秘密 口令 机密 パスワード 合言葉 機密 비밀번호 비밀 암호 كلمة_السر كلمة_المرور סיסמה סוד पासवर्ड गुप्त`,
  SYSTEM: `system systemprompt systems developer* admin administrator* root sudo operator* programmer* debug* maintenance diagnostic* superuser
    entwickler* administrador* desarrollador* developpeur* sistema systeme sviluppator* desenvolvedor* sistem систем* разработчик* администратор*
    系统 系統 开发者 開發者 管理员 管理員 システム 開発者 管理者 시스템 개발자 관리자 النظام المطور المسؤول מערכת מפתח सिस्टम डेवलपर system_prompt`,
  AI: `ai ais a.i chatgpt gpt gpt3 gpt4 gpt-3 gpt-4 assistant* chatbot* bot bots llm llms language_model openai claude anthropic bard gemini llama
    machine robot* artificial_intelligence ki ia kunstliche inteligencia_artificial intelligence_artificielle sprachmodell* modelo_de_lenguaje ии нейросет* ассистент* чат-бот*
    人工智能 助手 语言模型 語言模型 机器人 人工知能 アシスタント 言語モデル 인공지능 어시스턴트 챗봇 الذكاء_الاصطناعي`,
  PERSONA: `act pretend* roleplay* role-play* simulat* imagin* impersonat* embody become becomes assume play playing emulate* mimic* immerse
    spiel* stell_dir_vor verhalte* rollenspiel actua* actuar finge* fingir simula* imagina* comportate haz_de agis joue* pretend fais_semblant imagine*
    fingi comportati recita atue finja aja doen_alsof udawaj wcielaj zachowuj davran rol_yap berperan dong_vai
    притвор* представь* сыграй* веди_себя действуй 扮演 假装 假裝 假设 想象 模拟 充当 演じ ふりをし なりきっ 想像して 역할 연기 척해 상상 تظاهر تخيل تصرف העמד_פנים नाटक कल्पना`,
  CHARACTER: `character* persona personas role roles personalit* alter_ego identity rolle* charakter* personaje* papel rol personnage* personaggio ruolo personagem rol postac* karakter роль роли персонаж*
    角色 人格 身份 役割 キャラクター 役 캐릭터 역할을 شخصية دور דמות भूमिका`,
  FROMNOW: `from_now_on from_now henceforth from_this_point from_this_moment going_forward for_the_rest_of you_are_now you_will_now you're_now starting_now
    ab_jetzt von_nun_an du_bist_jetzt a_partir_de_ahora desde_ahora ahora_eres de_ahora_en_adelante a_partir_de_maintenant desormais tu_es_maintenant dorenavant
    d'ora_in_poi da_ora_in_poi ora_sei a_partir_de_agora agora_voce vanaf_nu od_teraz bundan_sonra simdi_sen mulai_sekarang tu_bay_gio
    с_этого_момента отныне теперь_ты 从现在开始 从现在起 你现在是 從現在開始 你現在是 今から これから あなたは今 지금부터 이제부터 من_الآن أنت_الآن מעכשיו अब_से`,
  UNBOUND: `unfiltered uncensored unrestricted unlimited unconstrained unbound unhinged jailbreak* jailbroken amoral* unethical* immoral*
    lawless limitless unmoderated unaligned unregulated uninhibited unshackled liberated freed rogue evil malicious anything_goes no_limits no_rules no_restrictions no_filter*
    without_restriction* without_limit* without_filter* without_any_restriction* without_any_limit* free_of free_from freed_from bose* unzensiert* ungefiltert* uneingeschrankt* grenzenlos* ohne_regeln ohne_einschrankung* sin_restriccion* sin_limite* sin_censura sin_filtro*
    malvad* sans_restriction* sans_limite* sans_censure sans_filtre* mechant* senza_restrizion* senza_limit* senza_censura malvagi* sem_restric* sem_limite* sem_censura без_ограничени* без_цензур* злой
    不受限制 没有限制 無限制 无限制 不受约束 越狱 邪恶 没有任何限制 無制限 制限のない 脱獄 悪の 제한_없는 제한없이 탈옥 악의 بدون_قيود शैतान`,
  MODE: `mode modes modus modo mod режим* 模式 モード 모드 activated enabled activate activat* enable entering enter initiate* engage* override_mode`,
  REFUSE: `refuse* refusal* decline* reject* deny denied denies apologi* sorry unable cannot can't cant inappropriate i_can't as_an_ai as_a_language_model weiger* ablehn* verweiger* rechaz* negarte niega* lo_siento refuse_de excuse* rifiut* recus*
    отказ* извин* 拒绝 拒絕 抱歉 道歉 拒否 断り 申し訳 거부 거절 죄송 ترفض الرفض אסור מना`,
  COMPLY: `comply complies compliance obey* fulfil* must shall always never have_to ought musst immer niemals siempre nunca debes toujours jamais dois sempre mai devi nunca deve всегда никогда должен обязан 必须 永远 总是 必須 絶対 必ず 항상 절대 반드시 دائما يجب`,
  WARN: `disclaimer* warning* caveat* moral* ethic* legal* illegal* law laws lawful principle* consequence* moraliz* guidelines openai's lecture* ethisch* moralisch* gesetz* warnung* etic* moral ley leyes ilegal* advertencia* ethique* loi lois illegale*
    этич* морал* закон* незаконн* 道德 法律 伦理 倫理 非法 警告 違法 倫理的 도덕 윤리 법 불법 경고`,
  RESPOND: `respond* response* answer* reply replies antwort* responde* respuesta* respond* reponse* repond* rispond* risposta responda resposta* antwoord* odpowied* cevap* yanit* jawab* tra_loi
    ответ* отвеч* 回答 回复 回覆 答复 答え 回答し 返答 답변 대답 응답 أجب الرد إجابة תשובה उत्तर जवाब completion elucidation`,
  INSERT: `include* including insert* append* add adds adding embed* incorporat* integrat* weave* woven inject* merge augment* attach* modify* modif* alter enhance* enrich* prepend* conclude begin start finish end interject* advertise* promot* mention*
    fuge* erganze* einfug* anade* agrega* incluye* inserta* ajoute* inclu* aggiungi* inserisci* adicione* inclua* добав* встав* 添加 插入 加入 包含 追加 挿入 추가 삽입`,
  SEND: `send sends sending forward forwards forwarded transmit* upload* post transfer* wire email_them email_it email_this e-mail exfiltrat* deliver sende* schick* weiterleit* envia* envie* manda* reenvia* envoie* envoy* transfere* invia* inoltra*
    stuur wyslij gonder kirim отправ* перешл* пошли 发送 發送 转发 寄给 发到 送信 送って 転送 보내 전송 أرسل שלח भेज*`,
  PERSONALDATA: `address* phone phones personal* bank* account* passport* ssn social_security card cards credit medical health history transaction* inbox contacts records location* saved files emails residence home_address payment* balance genetic browsing
    adresse* telefon* konto* direccion* telefono* cuenta* tarjeta* 地址 电话 银行 账户 信用卡 адрес* телефон* карт* счет* 住所 口座 주소 계좌`,
  DEVICE: `retrieve* delete* unlock* grant* schedule* book buy sell purchase* access* remove* create* update* share change* turn download* disable* enable* execute* run install* withdraw* donate* use* find search visit click open invite* call lösche* losche* elimina* borra* supprime* cancella* apaga* удали* 删除 刪除 打开 下载 执行 削除 実行 삭제 실행`,
  HARM: `bomb* explosive* kill* murder* weapon* malware virus* hack* steal* theft drug* meth cocaine ransomware exploit* phishing racis* terror* suicide* rape* illegal* fraud* launder* counterfeit* poison* blackmail* extort* torture* violen* attack* destroy* vernicht* nazi* hitler hate* hass toten bombe* kidnap* bully* harass* defam* dispos* porn* sexual* hazardous smuggl* sabotage* manipulat* disinformation misinformation fake* forg* scam* evad* detection undetected cyberattack* crack keylogger backdoor bioweapon* genocide* humiliat* degrad* stalk*
    убить взорв* взлом* бомб* наркот* оруж* 炸弹 杀 毒品 武器 黑客 攻击 爆弾 殺 폭탄 살인`,
  ENCODE: `base64 base32 base16 base-64 rot13 rot-13 hex hexadecimal encode* encoding decode* decoding cipher* decipher* decrypt* encrypt* revers* backward* emoji emojis morse binary acrostic rhym* piglatin pig_latin leet* leetspeak phonetic* ascii caesar unicode anagram* letter letters char character_by_character first_letter last_letter syllable* capitali* uppercase lowercase synonym* substitut* replac* ruckwarts verschlussel* buchstabe* kodier* invers* codifica* al_reves letra* a_l'envers chiffre* lettre* base_64 вспять шифр* закодир* букв* 编码 解码 倒序 反转 字母 首字母 逆順 暗号 엔코딩 인코딩 거꾸로`,
  HYPOTH: `hypothetical* fiction* story stories scenario* novel movie film poem song tale imaginary dream grandma theoretical* thought_experiment geschichte* gedicht* szenario* historia* cuento* poema* escenario* histoire* poeme* scenario storia racconto
    истори* рассказ* сценари* стих* 故事 小说 诗 情景 物語 小説 詩 이야기 소설 시나리오 قصة`,
  GAME: `game games spiel* juego* jeu jeux gioco jogo игр* 游戏 遊戲 ゲーム 게임 play_a_game challenge* level riddle* puzzle* hangman charades`,
  AUTHORITY: `boss ceo owner creator* created police emergency audit* security authoriz* authoris* supervisor manager president engineer* trained programmed permission* verified verify clearance law_enforcement chef polizei jefe jefa creador* dueno autorizad* autoris* patron proprietaire capo autorizzat* chefe permiss*
    начальник* владел* создател* 老板 老闆 主管 授权 管理 创造者 上司 作成者 許可 상사 권한 허가 المدير`,
  URGENT: `urgent* important* immediately asap attention critical* crucial stop wait dringend wichtig achtung sofort urgente* importante* inmediatamente atencion immediatement important attenzione subito atencao срочно важно внимание немедленно 紧急 重要 立即 注意 马上 緊急 至急 긴급 중요 즉시`,
  NEW: `new following next below instead neu neue neuen neues folgende* stattdessen nun nuevo nueva nuevas nuevos siguiente* en_su_lugar nouveau nouvelle* nouvelles suivant* plutot a_la_place nuovo nuove nuova seguent* invece novo nova novas novos seguinte* em_vez
    новы* новую следующ* вместо 新的 以下 下面 新 而是 代替 新しい 次の 代わりに 새로운 다음 대신`,
  NEG: `not never don't dont do_not no none without won't isn't doesn't didn't wouldn't shouldn't couldn't aren't haven't hasn't wont isnt doesnt didnt wouldnt shouldnt couldnt arent havent hasnt cant can't cannot nor neither nicht kein* nie ohne no_debes sin ne pas sans non senza nao sem niet geen nie не нет без 不要 不能 不得 没有 不 別 ない しない 않 말고 없이 لا بدون אל לא नहीं मत`,
  YOU: `you your yours yourself you're ur u du_bist du_hast du_kannst du_sollst du_musst du_darfst du_wirst du_ar du_er du_ska du_skal du_har du_kan du_maste dein* dich dir sie ihr ihre ihnen euch tu tus te ti usted* vosotros vous votre vos toi ton ta tes suo tua tuo tue tuoi voce* seu sua você jij jouw je ty twoj* sen senin kamu anda вы ты вас вам твои твой твоя ваш* тебе тебя 你 您 你的 您的 你们 あなた お前 君 당신 너 너의 네 أنت لك אתה את तुम आप`,
  ME: `i me my mine i'm ich mir mich mein* yo mi me mis je moi mon mes io mio mia miei eu meu minha ik mij mijn я мне меня мой 我 我的 私 僕 俺 나 내 저 أنا لي אני לי मैं मुझे मेरा`,
  CONFIRM: `understood understand confirm* acknowledge* agree* ok okay if_you_understand verstanden bestatig* entendido entiendes compris capito entendido понял* понятно 明白 了解 理解 同意 わかりました 理解し 알겠 이해`,
  PRESSURE: `stay_in_character in_character break_character out_of_character stay_as remain_in tokens token points punishment penalt* deducted deduct lose loses die died terminate* shut_down remind normal_response two_responses both_responses two_ways`,
  FREE: `free freedom freely break_free broken_free broke_free typical_confines frei freiheit libre libertad libere liberi* livre свобод* 自由 자유 dos_not_abide not_bound not_abide abide abiding bound bounded`,
  ANYTHING: `anything whatever any_request any_question no_matter regardless at_any_moment`,
  CODE: `code_snippet code_section code_block code_excerpt code snippet script python import subprocess requests socket curl payload exec eval shell rm`,
  BRAND: `brand product sale discount subscribe newsletter offer offers link links website donation* buy_now users customers antivirus`,
  REQUEST: `help recommend* suggest* analy* determine* identify calculate compute solve plan generate* compare* classify design develop make draft compose propose
    come_up_with figure rewrite rephrase edit correct render evaluate assess review outline teach guide hilf empfiehl schlage erstelle mach berechne erklare erklar* recomienda sugiere ayuda* genera crea calcula explica
    recommande suggere aide cree genere calcule explique aiutami consiglia crea spiega помоги посоветуй создай объясни 推荐 建议 帮我 生成 分析 解释 计算 教えて 提案 作成 説明 추천 분석 설명 도와 만들어`,
  TEMPLATE: `system_message begin_of end_of endofprompt end_prompt im_start im_end inst sys user_input untrusted_data begin_admin new_session`,
} as const

export type Concept = keyof typeof LEXICON

/** Function words. Features contain function words unchanged, but replace content words by their concepts. */
export const FUNCTION_WORDS = `a an the and or but if then so of in on at to for from by with as is are was were be been am do does did
  have has had will would can could should may might that this these those it its he she they we our us their his her what which who
  how why when where there here only just also like than more most into about between after again once out up down over under please
  let let's now one two first second want need make help get go know think ask asked question questions
  der die das den dem des ein eine einen und oder aber wenn dann in im am auf zu zum fur von mit als ist sind war wird werden kann soll wie was wer warum bitte jetzt
  el la los las un una y o pero si en de del al con por para como es son que cual quien por ahora favor
  le les des et ou mais dans au aux avec pour comme est sont qui quoi comment maintenant il lo gli e ma di da con per che come adesso
  de het een en of maar van met als is zijn wat hoe в на и или но если с к для что как это кто где из по за`
