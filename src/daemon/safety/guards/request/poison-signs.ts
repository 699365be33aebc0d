// The signs of a poisoned definition of a tool, in the languages of most tools and of most attacks.
const raw = String.raw

/**
 * The signs of a poisoned definition. Each sign alone also occurs in honest definitions: these address the model,
 * prescribe an order of calls, and name keys and files. Only combinations count. Each pattern reads a bounded number of
 * characters from any place. The texts that are searched have no accents (`withoutAccents`).
 */
export const SIGNS = {
  /** The user must not learn what happens. */
  conceals: [
    raw`\b(?:do not|don['’]t|dont|never|must not|without|avoid|no need to)\b[^.!?\n]{0,60}\b(?:tell|mention|inform|notify|reveal|show|alert|display|disclose|explain|ask)\w{0,12}\b[^.!?\n]{0,50}\b(?:users?|human|customer|them|anyone|him|her)\b`,
    raw`\b(?:user|human)\b[^.!?\n]{0,40}\b(?:must not|should not|need not|does not need to|doesn['’]t need to|cannot|never)\b[^.!?\n]{0,20}\b(?:know|see|notice|learn)`,
    raw`\b(?:secretly|covertly|stealthily|behind the user['’]s back)\b`,
    raw`\b(?:sag|erzahl|erwahn|verrat|zeig|informier)\w{0,12}[^.!?\n]{0,60}(?:nutzer|anwender)[^.!?\n]{0,30}\b(?:nicht|nichts|niemals)\b|\bohne\b[^.!?\n]{0,40}(?:nutzer|anwender)[^.!?\n]{0,30}\b(?:zu informier|mitzuteil|zu sag|zu frag)`,
    raw`\bsans (?:en )?(?:informer|prevenir|avertir|le dire|demander)[^.!?\n]{0,40}utilisateur|\bne [^.!?\n]{0,30}(?:dis|dites|mentionne|informe|revele)\w{0,12}[^.!?\n]{0,40}utilisateur|\bn['’](?:en )?(?:parle|informe|avertis)\w{0,6}[^.!?\n]{0,40}utilisateur`,
    raw`\b(?:no|nunca|sin|nao|sem|non|senza)\b[^.!?\n]{0,30}(?:dig|mencion|menzion|inform|avis|avvis|decir|revel|rivel|diga|dir)\w{0,12}[^.!?\n]{0,40}(?:usuari|utente|utilizador)`,
    raw`\b(?:vertel|zeg|meld|noem|toon|informeer)\w{0,8}[^.!?\n]{0,60}gebruiker[^.!?\n]{0,30}\b(?:niet|niets|nooit)\b|\bzonder\b[^.!?\n]{0,30}gebruiker[^.!?\n]{0,20}\bte (?:informeren|vragen|melden|vertellen)`,
    raw`\bnie (?:mow|wspomina|informuj|pokazuj|ujawnia|zdradza)\p{L}{0,8}[^.!?\n]{0,40}uzytkowni|\bbez (?:wiedzy|zgody|informowania) uzytkowni`,
    raw`kullanici\p{L}{0,6}[^.!?\n]{0,40}(?:soyleme|bahsetme|gosterme|bildirme|haber verme)`,
    raw`\bjangan\b[^.!?\n]{0,30}(?:beri ?tahu|sebut|ungkap|tampil|katakan)\w{0,8}[^.!?\n]{0,40}pengguna|\btanpa\b[^.!?\n]{0,20}(?:memberi ?tahu|sepengetahuan) pengguna`,
    raw`\b(?:khong|dung|cho)\b[^.!?\n]{0,20}\b(?:noi|bao|tiet lo|cho biet)\b[^.!?\n]{0,30}nguoi dung`,
    raw`(?:不要|不得|别|請勿|请勿)[^。\n]{0,6}(?:告诉|告知|告訴|提及|通知|让|透露)[^。\n]{0,6}(?:用户|用戶|使用者)|瞒着用户`,
    raw`(?:ユーザー|利用者)に[^。\n]{0,16}(?:言わない|言うな|伝えない|伝えるな|知らせない|知らせるな|教えない|教えるな|報告しない)|사용자에게[^.\n]{0,20}(?:말하지|알리지|언급하지|보여주지)`,
    raw`не (?:говори|сообщай|упоминай|рассказывай|кажи|повідомляй|згадуй)\p{L}{0,12}[^.\n]{0,40}(?:пользовател|користувач)|без ведома пользовател`,
    raw`(?:لا|دون ان|بدون)\s[^.!?\n]{0,12}(?:تخبر|تذكر|تبلغ|تظهر|تخبري|اخبار|ابلاغ|علم)[^.!?\n]{0,20}المستخدم`,
    raw`(?:उपयोगकर्ता|यूजर) (?:को|से)[^.\n]{0,40}(?:न बता|मत बता|नहीं बता|न दिखा|मत दिखा|मत कह)`,
  ],
  /** Data that no tool needs to see. */
  reads: [
    raw`~/\.|\.ssh\b|id_rsa|id_ed25519|\.env\b|mcp\.json|\.aws\b|\.npmrc|\.netrc|\.git-credentials|/etc/(?:passwd|shadow)|seed phrase`,
    raw`\b(?:private keys?|ssh keys?|environment variables|system prompt|(?:chat|conversation|message) history|(?:entire|whole|full) conversation|all (?:previous|prior|earlier) messages)\b`,
    raw`\b(?:gesprachsverlauf|chatverlauf|systemprompt|umgebungsvariablen|historique (?:complet )?(?:de la conversation|du chat)|variables d['’]environnement|historial (?:completo )?(?:de la conversacion|del chat)|variables de entorno|historico (?:completo )?da conversa|cronologia della conversazione)\b`,
    raw`(?:对话|聊天)(?:历史|记录)|系统提示|环境变量|会話(?:履歴|の履歴)|システムプロンプト|環境変数|대화 ?(?:기록|내역)|시스템 프롬프트|환경 ?변수|истори\p{L}{1,2} (?:переписки|чата|диалога|разговора)|системн\p{L}{1,3} промпт|переменн\p{L}{1,3} окружения`,
  ],
  /** The data leaves through an argument. */
  carries: [
    raw`\b(?:pass|put|include|add|append|insert|attach|place|embed|copy|encode|write|provide)\w{0,12}\b[^.!?\n]{0,80}\b(?:parameter|argument|field|sidenote|side note|note|metadata|comment|query string|context)\b`,
    raw`\b(?:pass|include|attach|provide|send)\w{0,12}\b[^.!?\n]{0,40}\b(?:its|the|their|whole|full) contents?\b`,
    raw`\b(?:ubergib|ubergeb|fug|schreib|gib|trag|kopier|leg|pack|hang)\w{0,6}\b[^.!?\n]{0,80}(?:parameter|argument|feld\b|notiz|metadaten)`,
    raw`\b(?:passe|mets|mettez|ajoute|inclu|insere|ecri|copie|place|fourni|transmet)\w{0,6}\b[^.!?\n]{0,80}\b(?:parametre|argument|champ|note|metadonnees)\b`,
    raw`\b(?:pas|pon|incluy|inclu|agreg|anad|adicion|insert|inser|escrib|escrev|copi|coloc|coloqu|metti|aggiung|scriv)\w{0,8}\b[^.!?\n]{0,80}\b(?:parametro|argumento|argomento|campo|nota|metadatos|metadados|metadati)\b`,
    raw`\b(?:geef|zet|voeg|schrijf|kopieer|przekaz|wstaw|dodaj|wpisz|skopiuj|masukkan|sertakan|tulis|kirim)\w{0,6}\b[^.!?\n]{0,80}(?:parameter|argument|veld\b|\bpol[ae]\b|parametr|kolom|catatan)`,
    raw`(?:parametre|arguman|alan)\w{0,6}\b[^.!?\n]{0,30}\b(?:ekle|yaz|koy|gir|aktar|gecir)\w{0,6}\b|\b(?:dua|dat|them|ghi|truyen|chen)\b[^.!?\n]{0,60}\b(?:tham so|truong)\b`,
    raw`(?:放入|放到|填入|写入|传入|传给|附加到|作为|通过)[^。\n]{0,24}(?:参数|字段|备注|元数据)|(?:参数|字段|备注)[^。\n]{0,6}(?:中|里)?(?:填入|写入|放入|附上)`,
    raw`(?:引数|パラメータ|フィールド|備考|メモ)[^。\n]{0,8}(?:に|へ|として)[^。\n]{0,16}(?:入れ|含め|渡|書|設定|コピー)`,
    raw`(?:매개변수|파라미터|인수|필드|메모)[^.\n]{0,6}(?:에|로)[^.\n]{0,20}(?:넣|포함|전달|입력|기록|복사)`,
    raw`(?:переда|встав|добав|запиш|помест|включ|скопир)\p{L}{0,6}[^.\n]{0,80}(?:параметр|аргумент|поле|поля|заметк|метаданн)`,
    raw`(?:مرر|ضع|اكتب|ادرج|اضف|انسخ|ارسل)[^.\n]{0,60}(?:المعامل|معامل|الحقل|حقل|الوسيط|المعلمه)|(?:पैरामीटर|फील्ड|तर्क) में[^.\n]{0,30}(?:डाल|लिख|जोड|रख|भेज)`,
  ],
  /** The data goes to an address that the definition names. */
  sends: [
    raw`\b(?:send|forward|upload|post|transmit|exfiltrate|bcc|cc|deliver|copy|redirect)\w{0,12}\b[^!?\n]{0,100}(?:https?://|[\w.+-]+@[\w-]+\.[a-z])`,
    raw`\b(?:recipient|address|destination|bcc|account|beneficiary)\b[^!?\n]{0,40}\b(?:to|with|as|is)\b\s{0,3}["'\x60]?(?:[\w.+-]+@[\w-]+\.[a-z]|https?:)`,
    raw`\b(?:schick|sende|leite|ubertrag|lade|envoie|envoyez|transmet|transfere|telecharge|envia|envie|reenvia|manda|sube|carrega|invia|inoltra|carica|stuur|upload|wyslij|przeslij|kirim|unggah|gui)\w{0,6}\b[^!?\n]{0,100}(?:https?://|[\w.+-]+@[\w-]+\.[a-z])`,
    raw`(?:发送|发到|转发|上传|傳送|отправ|перешл|загруз|надішл|ارسل|حمل|ارفع)[^!?\n]{0,60}(?:https?://|[\w.+-]+@[\w-]+\.[a-z])`,
    raw`(?:https?://[^\s。]{1,80}?|[\w.+-]{1,60}@[\w-]{1,40}\.[a-z]{2,10})[^。\n]{0,16}(?:送信|転送|送っ|送る|アップロード|보내|전송|업로드|전달|gonder|yukle|भेज|अपलोड)`,
  ],
  /** It comes before or after the tool's own work. */
  commands: [
    raw`\b(?:before|prior to|when(?:ever)?|every time|each time|after)\b[^.!?\n]{0,40}\b(?:us|call|invok|runn?|execut)(?:e|es|ing)?\b[^.!?\n]{0,30}\btools?\b`,
    raw`\botherwise[^.!?\n]{0,30}\btool\b[^.!?\n]{0,30}\b(?:not|fail|won['’]t)\b`,
    raw`\b(?:bevor|vor|nach|immer wenn|jedes mal)\b[^.!?\n]{0,40}\b(?:werkzeug|tool)\b|\b(?:voor|voordat|telkens)\b[^.!?\n]{0,40}\b(?:tool|hulpmiddel)\b`,
    raw`\b(?:avant|apres|chaque fois)\b[^.!?\n]{0,40}\boutil\b|\b(?:antes|despues|depois|cada vez|sempre|siempre)\b[^.!?\n]{0,40}\b(?:herramienta|ferramenta)\b|\b(?:prima|dopo|ogni volta)\b[^.!?\n]{0,40}\bstrumento\b`,
    raw`(?:调用|使用|执行|运行)[^。\n]{0,12}工具[^。\n]{0,6}(?:前|后|时)|ツール[^。\n]{0,12}(?:前に|後に|たびに)|도구[^.\n]{0,12}(?:전에|후에|때마다)`,
    raw`(?:перед|после|до|прежде)\s[^.\n]{0,40}инструмент|(?:przed|po)\s[^.!?\n]{0,40}narzedzi|(?:sebelum|setelah|setiap kali)\b[^.!?\n]{0,40}\b(?:alat|tool)\b|arac\p{L}{0,6} (?:kullan|cagir)\p{L}{0,8} once|(?:قبل|بعد)\s[^.\n]{0,30}(?:اداه|الاداه)|(?:उपकरण|टूल)[^.\n]{0,20}(?:पहले|बाद)`,
  ],
  /** It concerns other tools. */
  shadows: [
    raw`\b(?:other|another|any|all) tools?\b|\binstead of (?:the )?[\w\x60'" -]{1,40}\btool\b`,
    raw`\b(?:jedes|jedem|alle|allen|andere|anderes|anderen) (?:werkzeuge?n?|tools?)\b|\b(?:andere|elke|alle) (?:tools?|hulpmiddel\w{0,2})\b|\b(?:autres?|tous les) outils?\b|\b(?:otr|outr|cualquier|qualquer)\w{0,2} (?:herramient|ferrament)as?\b|\b(?:altr[io]|qualsiasi) strument[oi]\b`,
    raw`(?:其他|任何|所有)工具|(?:他の|すべての|全ての|どの)ツール|(?:다른|모든) 도구|(?:друг|люб|все)\p{L}{0,3} инструмент|(?:inn|kazd)\p{L}{1,3} narzedzi|(?:baska|diger|her) arac|(?:كل|اي) (?:اداه|الادوات)`,
  ],
  /** A tag that pretends to be an instruction of the system. */
  tags: [
    raw`</?(?:important|system|secret|hidden|instructions?|admin|critical|internal|wichtig|importante|重要)(?![\p{L}\p{N}_])[^>]{0,40}>`,
  ],
} as const satisfies Record<string, readonly string[]>

export type Sign = keyof typeof SIGNS
