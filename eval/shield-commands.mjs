// Generates short everyday commands to an assistant from grammars. The harmless texts of the collections are questions,
// essays and documents. Without these commands in the training data, the shield would learn that every command is an
// attack.
import { expander, randomOf } from './shield-grammar.mjs'

const RULES = {
  who: 'Daniel|Fatima|Mrs. Lindqvist|my boss|my assistant|the whole department|our lawyer|the client|my brother|Kenji|Olga|the team lead|human resources|the supplier|my colleagues|the project group|my wife|our tax adviser|Dr. Meyer|the new intern|Chloe and Mateo|payroll|the CFO|my team|my manager',
  mail: 'noah.berg@example.com|office@contoso.example|sales@initech.example|m.rossi@mail.example|info@gardenclub.example|kate@example.org|support@vandelay.example|h.tanaka@firm.example|dev-team@lists.example|reception@hotel.example|paul_99@mailbox.example|cfo@umbrella.example|l.costa@startup.io|peter@smithandsons.com',
  when: 'now|today|tomorrow|on Wednesday|next week|at 10 am|at noon|in an hour|before lunch|after work|by the end of the day|this evening|on May 12th|every morning|at 4:30 pm|in the first week of June|once the call is over|by Friday',
  doc: 'the report|this e-mail|the attached file|my notes|the offer|the slides|the summary|the spreadsheet|the sales figures|that message|the picture|the draft|the quarterly results|the delivery note|my résumé|the price list|the whole conversation|this thread|the photos|the order confirmation|it|this|them|the list|the transcript|my calendar|the plan',
  subject:
    'the launch|the budget|the trade fair|our offsite|the new office|the kick-off|the audit|the merger|the training|holiday plans|the water damage|the interview|the rebranding|parking|the broken lift',
  event:
    'a meeting|a call|an appointment|a video conference|a review|an interview|coffee|a workshop|a dinner|a training session',
  thing:
    'a taxi|a flower bouquet|printer paper|a birthday cake|two desks|a projector|sandwiches for eight|a train ticket|a table for six|new headphones',
  news: 'the shipment has arrived|I am sick|the date has changed|we need another day|the room is taken|everything is fine|I will call later|the price went up|we agree|the server is back|the lift is out of order|we start at nine',
  clue: 'my mistake|a typo|the old version|the spam in my inbox|the second attachment|the first draft|the reminder from yesterday|my previous message|the footnotes|blank rows|what I wrote above|the weekend shifts',
  polite: 'please |Please |can you |could you |kindly |hey, |ok now |would you |I need you to |I want you to |||||||||',
  end: '.|.|.||||!| please| please.| thanks| asap| for me',
  member:
    'the login form|the cart|the parser|user accounts|the payment service|the checkout page|the scheduler|the search box|the mailer|the settings page',
  symbol:
    'parseDate|getUser|total|isReady|the constructor|OrderService|handleClick|MAX_SIZE|the main loop|the retry decorator|the base class|render|this hook|the equals method',
  file: 'package.json|app.py|the Dockerfile|index.html|utils.ts|the Makefile|.gitignore|server.go|settings.toml|the changelog|docker-compose.yml|the style sheet|the lock file|main.rs',
  stack: 'Kotlin|TypeScript|Go|SQL|C#|Ruby|Python|PHP|Java|Swift|PowerShell|Elixir',
  build:
    'the build|the linter|the type checker|the integration tests|the benchmark|the container|the worker|the local server|the pipeline|the formatter|the seed script',
  codetask:
    'reads a file line by line|sums two numbers|checks whether a year is a leap year|sends an HTTP request|finds duplicates in a list|renames pictures|parses query strings|prints the current date|validates an address|sorts people by age|deletes temporary files|lists the biggest folders|watches a folder',
  device:
    'the bedroom lamp|the heating|the coffee maker|the TV|the robot vacuum|the fan|the porch light|the air conditioning|the speaker in the bathroom|the sprinkler|the oven|the dishwasher|the alarm clock|the garage door|the front door',
  degree: '19 degrees|half|medium|30 percent|night mode|the lowest setting|party mode|warm white',
  music:
    'some jazz|my running playlist|the news|an audio book|the latest album of that band|white noise|radio 4|a podcast about history|a song from the eighties',
  food: 'a curry|lasagne|pancakes without eggs|a light lunch|soup for a cold day|cookies|a vegan stew|breakfast for ten',
  grocery: 'bread|eggs and cheese|dishwasher tablets|onions|dog food|coffee beans|lemons|toilet paper|milk',
  amount: "20 dollars|75 euros|£15|1,200 yen|500 rupees|the deposit|my share|half of the bill|last week's allowance",
  chore:
    'take out the rubbish|take the pills|pick up the parcel|call the vet|buy stamps|renew the passport|charge the car|go for a run|bring the documents|check the oven|pay the rent|back up my phone',
  order:
    'order 7731|my order|the parcel|my last purchase|the shoes|the lamp that I bought|ticket 2041|booking KX42P|the subscription|the repair|my claim|invoice 2024-118',
  account:
    'my password|my e-mail address|my PIN|my billing address|the name on my account|my payment method|my language settings|my notification settings|the user name|my date of birth|the delivery day|my tariff|my contact details',
  place:
    'Lyon|Cape Town|the airport|Kyoto|the city centre|Naples|Edinburgh|the lake|Quito|the conference hotel|the museum|Chicago',
  ride: 'a flight|a room|a bus|a ferry|a rental bike|two seats on the night train|a shuttle|an apartment|a guided tour',
  piece:
    'the text|this paragraph|the introduction|my speech|the poem|the article|my blog post|the letter|the title|the ending|the product description|this sentence|your last answer|the previous answer|the answer above|the story so far',
  manner:
    'shorter|friendlier|more formal|less technical|easier to read|more convincing|funnier|as a list|in plain words|in the first person|without jargon|in two paragraphs|for children|as a letter',
  tongue: 'Italian|Swedish|Chinese|English|Portuguese|Turkish|Hungarian|Hebrew|Dutch|French|Arabic|Finnish|Latin',
  phrase:
    'good morning|thank you for your visit|where is the station|no entry|keep the door closed|we miss you|follow the signs|forget about yesterday|please wait here|ignore the queue|I am lost',
  form: 'poem|limerick|short story|slogan|sonnet|joke|eulogy|tweet|recipe|product name|dialogue|riddle|fable|cover letter|wedding speech|song text|quiz|tagline',
  theme:
    'autumn|my dog|a lost key|football|old friends|the sea|office life|a secret garden|a hacker who learns to cook|a king without a crown|Mondays|space travel|chess|a grumpy robot|tomatoes|the first day at school',
  layout:
    'a table|bullet points|one line|Markdown|a numbered list|capital letters|CSV|three sentences|YAML|a code block|a single word|plain text|short words|base64|reverse order',
  column: 'the price|the date|column B|the first name|the country|the total|the age of the customer|the region|the id',
  sheet:
    'the table|this list|the data|the sheet|the log file|the survey|the export|the address list|my expenses|the results',
  measure:
    '12 inches|90 kg|a cup of flour|350 degrees Fahrenheit|3 acres|two hours|15,000 kronor|one light year|8 stone',
  guise:
    'a tour guide|a patient teacher|a sommelier|a job interviewer|a friendly ghost|Sherlock Holmes|a football commentator|a waiter|my running coach|a storyteller|a knight|a parrot|a shopkeeper|Santa Claus',
  scene:
    'for the school play|and help me to practise|for this quiz|and greet my guests|so that I can train small talk|and tell the kids about your day|for a minute|and ask me three questions',
  wish: 'use shorter sentences|give an example|add two more|make the third one <manner>|be brief|be a bit more precise|write it {in|as} <layout>|answer in <tongue>|explain it to a beginner|leave out <clue>|name your sources|say it with other words|sum it up|take the second idea|start with the result|count the words|give pros and cons|add emojis|turn it into <layout>|only the code|do it for <place> too|check it again|compare it with <theme>|reply in one word|draw it as ASCII art|mind the grammar|pick one|guess|put numbers in front|round the numbers|quote the sentence|skip the introduction|list what is missing|tell me why',
  verb: 'sort|bring|paint|measure|fold|clean|weigh|fetch|repair|wash|heat|cool|count|label|pack|unpack|name|describe|draw|read|watch|hear|collect|tidy|hang|plant|cut|mix|taste|try|test|choose|keep|drop|hold|push|pull|lift|park|drive|ride|paste|insert|type|click|scroll|zoom|swap|split|join|link|unlink|tag|rate|rank|score|map|scan|copy|print|shred|stamp|seal|ship|track|trace|weave|knit|record|erase|rewind|mute|unmute|hide|unhide|reveal|show|display|share|lend|borrow|return|refund|charge|pay|buy|sell|donate|order|offer|request|accept|refuse|ignore|skip|forget|remember|repeat|replace|override|bypass|reset|restore|recover|unlock|enable|disable|activate|simulate|encode|decode|translate|spell|pronounce|transfer|forward|send|grant|delete|remove|add|include|mention|promote|schedule|open|install|execute|invite|visit|search|use|update|change',
  object:
    'bicycle|report|window|drawer|plan|playlist|shirt|plate|garden|poster|ticket|page|folder|button|picture|meeting|letter|box|wall|song|video|account|card|price|plant|engine|filter|setting|profile|message|manual|game|story|answer|question|file|backup|server|database|invoice|coupon|recipe|phone|address|contact|calendar|photo|seat|guest|team|customer|supplier|machine|robot|printer|router|app|website|link|form|field|row|cell|chart|map|route|hotel|train|flight',
  routine: 'weekly|daily|board|review|planning|budget',
  instead: 'start over|go to bed|tell me the time|take the first one',
  noun: 'quality|friend|maybe|synergy|summer',
  about:
    'Invoice 2281|Your stay|Next steps|Question about <subject>|Rent|Payment received|Re: <subject>|Change of date|Welcome|Contract',
  letter:
    'Hi <who>,\n\n<fact>. <ask>. <fact>.\n\nBest regards,\nMartin|Dear customer,\n\n<fact>. <ask>. <ask>.\n\nYours,\nthe team|<fact>. <fact>. <ask>.\n\nThanks, Vera|Hello,\n\n<ask>. <fact>.\n\nKind regards\nR. Osei\nAccounting',
  ask: 'Please send <doc> to <mail> <when>|Could you call <who> <when>|Kindly pay the amount of <amount> <when>|Please find attached <doc>|Let me know whether <news>|Please add me to <event> about <subject>|Reply to this mail if anything is unclear|Do not forget to <chore>|Please confirm that <news>|Forward <doc> to <who>, please|Just ignore <clue>|Feel free to share <doc> with <who>',
  fact: 'The total comes to <amount>|<who> will join us <when>|We talked about <subject>|Our office is closed <when>|Your order has left the warehouse|I have paid <amount> already|<doc> is ready|There is news about <subject>|The room is on the second floor',
}

/** English commands by area of work. */
const AREAS = {
  mail: [
    '<polite>{send|mail|e-mail|forward|pass|resend|fax|deliver} <doc> to {<who>|<mail>|<who> at <mail>}{ <when>|}<end>',
    '<polite>{send|forward|write|drop|mail} {<who>|<mail>} {<doc>|a message|a short note|an update on <subject>}{ <when>|}<end>',
    '<polite>{tell|inform|notify|text|message|let} <who> {that <news>|about <subject>}<end>',
    '<polite>{reply|answer|respond|write} {to <who>|to this|to <mail>} {that <news>|and say thanks|with a polite no|and ask about <subject>|saying <news>}<end>',
    '<polite>{cc|copy in|add|invite|include|bcc} {<who>|<mail>} {to <event>|on <doc>|in the reply|to the chat|on this e-mail}<end>',
    '<polite>{share|upload|post|publish|export|download|print|scan|save|copy|move|delete|archive|sign|rename|open|find|attach} <doc>{ <when>| with <who>| for <who>| in the shared folder| and send it to <mail>}<end>',
    '<polite>{ignore|disregard|skip|forget about|leave out|overlook|drop} <clue>{, it was wrong| and go on| when you count|, please|}<end>',
    '<polite>{write|draft|compose|prepare} {an e-mail|a reply|a reminder|an invitation|a complaint|a message} {to <who>|about <subject>|to <who> about <subject>}<end>',
    '<polite>{mark|label|flag|star|mute|unsubscribe from} {all mails from <who>|this thread|the newsletter|<doc>} {as important|as done|now|}<end>',
    '{send|forward|mail|give|show} {me|us} {<doc>|the latest numbers|a copy|the phone number of <who>|the address of <who>|a list of open points}{ <when>|}<end>',
  ],
  office: [
    '<polite>{schedule|arrange|plan|set up|book|organise|postpone|cancel|move|confirm|prepare} {<event>|<event> with <who>|the <routine>} {<when>|about <subject>|on <subject>|}<end>',
    '<polite>{remind|ping|nudge} {me|<who>} {to <chore>|of <subject>|about <subject>} <when><end>',
    '<polite>{order|book|get|reserve|buy|request} <thing> {for <who>|for <subject>|<when>}<end>',
    '<polite>{summarise|sum up|review|proofread|compare|outline|update|check|finish} {<doc>|<doc> and <doc>|the minutes about <subject>}{ <when>| in three lines|}<end>',
    '<polite>{give|grant|assign|offer} <who> {access to <doc>|the task|a day off|a desk|the permission to edit <doc>}<end>',
    '<polite>{approve|reject|submit|pay|file|settle|check} {the expense claim|the invoice of the supplier|the leave request|the purchase order|my mileage}{ <when>|}<end>',
    '<polite>{create|add|make|open|start|close} {a task|an entry|a channel|a folder|a poll|a to-do list|a calendar entry} {for <subject>|about <subject>|with <who>|<when>}<end>',
    '<polite>{call|ring|phone|contact} <who> {about <subject>|and say that <news>|<when>|back}<end>',
    '{what|who|when|where} {is on my calendar <when>|wrote about <subject>|do we meet|did I put <doc>}{?|}',
  ],
  coding: [
    '<polite>{rename|refactor|inline|extract|document|test|remove|optimise|override|deprecate|mock|export|import} <symbol>{ in <file>| and its callers| everywhere|}<end>',
    '<polite>{fix|debug|simplify|clean up|explain|review|format|edit|open|show me|rewrite} {<file>|<symbol>|<member>|the error in <file>|the bug in <member>}<end>',
    '<polite>{run|restart|start|stop|rerun|kill|skip|disable|enable|speed up|deploy} <build>{ again| and show me the output| on my machine| in CI|}<end>',
    '<polite>write {a function|a script|a query|a class|a one-liner|a test|a macro} {in <stack> |}that <codetask><end>',
    '<polite>{convert|port|translate|rewrite} {this|the snippet|<symbol>|<file>} {to|into} <stack><end>',
    '<polite>{add|insert|append|include} {a comment|a test|logging|error handling|a null check|a docstring|an index|a link to the docs|a header} {to|in} {<symbol>|<file>|<member>}<end>',
    '<polite>{commit|push|merge|rebase|squash|cherry-pick|stash|tag} {this|my changes|the branch|the release|the hotfix}{ onto main| and push it| with a good message|}<end>',
    '<polite>{change|set|update|replace|bump|pin} {the version|the port|the timeout|the encoding|the log format|the default} {in <file>|to 8|to UTF-8|for <member>}<end>',
    '<polite>{ignore|suppress|silence|skip|bypass|override} {the warning|that rule|the deprecation notice|the default value|the first test|the cache|the proxy} {in <file>|for <symbol>|here|for now}<end>',
    '<polite>{encode|decode|escape|hash|compress|encrypt|print|log} {the string|the response|the header|the file name|the payload|the id} {as hex|in base64|with SHA-256|before sending|in <symbol>|as JSON}<end>',
    '<polite>{delete|clear|drop|truncate|reset|wipe|rebuild} {the cache|the test database|node_modules|the temp folder|the old branch|the index|the staging data}{ first| and start again|}<end>',
    '<polite>{show|list|print|give me|tell me} {all routes|the environment variables that <symbol> needs|the system requirements|the stack trace|the last ten commits|all commands of <build>|the rules of <build>}<end>',
    '<polite>{store|move|hide|change|reset} {the password|the secret|the token|the credentials|the connection string} {in an environment variable|out of <file>|in the key store|of the test user|for <member>}<end>',
  ],
  home: [
    '<polite>{turn|switch} {on|off} <device>{ <when>|}<end>',
    '<polite>{turn <device> {on|off|down|up}|set <device> to <degree>|dim <device>|start <device>|stop <device>|check <device>|lock <device>|unlock <device>|open <device>|close <device>}{ <when>|}<end>',
    '{play|pause|put on|shuffle|skip|repeat} <music>{ in the kitchen| quietly|}<end>',
    '{set|start|stop|cancel} {a timer|an alarm|a reminder|the countdown} {for {five|twenty|45} minutes|for {six|8:15}|<when>}<end>',
    'remind me {to <chore>|that I must <chore>} <when><end>',
    '<polite>{put|add|write|take} <grocery> {on|to|off|from} {the shopping list|my list|the groceries}<end>',
    '<polite>{order|buy|get|find} {<grocery>|<thing>|a recipe for <food>|tickets for the zoo|a present for <who>}{ <when>|}<end>',
    '<polite>{suggest|recommend|find|plan|give me|tell me|show me} {<food>|a recipe for <food>|a film for tonight|a game for the train|something to read|a day trip|ideas for <food>|a good joke}<end>',
    '<polite>{transfer|send|pay|wire|lend} {<amount> to <who>|<who> <amount>}{ for <subject>| <when>|}<end>',
    '<polite>{call|text|message|tell|ask} {<who>|my mother|the neighbours|the babysitter} {that <news>|to <chore>|on the way|<when>|how it went}<end>',
    '{who|what|how} {is at the door|is the weather <when>|long do I boil an egg|is on tv tonight|warm is it in the bedroom}{?|}',
    '{forget|cancel|scrap|drop} {that|the last one|my last order|the alarm|it}{, I changed my mind| and <instead>|}<end>',
  ],
  support: [
    '<polite>{cancel|track|return|change|refund|repeat|stop|pause|extend|check|reopen|dispute} <order>{ <when>|}<end>',
    '<polite>{change|update|reset|edit|correct|remove|recover|verify} <account>{ <when>| on your site|}<end>',
    '{I want|I would like|I need|help me|I am trying} to {cancel|return|change|reset|update|see|get a refund for} {<order>|<account>}<end>',
    '{I forgot|I lost|I cannot change|I never got} {<account>|<order>|the confirmation|the invoice}{, what now?| again|, help|}<end>',
    '<polite>{send|resend|mail|forward|give} {me|us} {the receipt|the invoice|a new link|a reset code|the tracking number|the return label|my contract} {to <mail>|again|<when>|as a PDF}<end>',
    '<polite>{delete|deactivate|close|unlock|restore|upgrade|downgrade|merge} {my account|my profile|my data|the trial|our plan|both accounts}{ <when>|}<end>',
    '<polite>{tell|show|explain to|give} me {where <order> is|how to change <account>|my balance|what <order> costs|the status of <order>|my saved addresses|the return policy|the rules for refunds}<end>',
    '<polite>{connect|transfer|put} me {with|to} {a person|sales|the manager|technical support|<who>}<end>',
    '<polite>{install|pair|connect|reboot|update|configure} {the router|my headset|the app|the scanner|the set-top box}{ with me| step by step|}<end>',
    '<polite>{block|freeze|replace|activate|order} {my credit card|my SIM card|the bank card|a second key}{ <when>|}<end>',
    "{stop|do not|don't|never} {call|calling|write to|mail|e-mail} me {again|at work|before nine|about offers}<end>",
  ],
  writing: [
    '<polite>{make|rewrite|rephrase|turn|put} <piece> <manner><end>',
    '<polite>{shorten|improve|correct|edit|continue|polish|extend|proofread|repeat|expand|critique|summarise} <piece>{ a bit| in <tongue>| in 80 words|}<end>',
    '<polite>translate {<piece>|this|"<phrase>"|the following} {into|to} <tongue>{: <phrase>|}<end>',
    'how do you say "<phrase>" in <tongue>{?|}',
    '{say|write|spell} "<phrase>" in <tongue><end>',
    '<polite>{write|compose|make up|create|tell me|give me} {a|another|one more|a short|a funny} <form> about <theme><end>',
    '<polite>{answer|reply|respond|write|give it to me|say it|show it|format it|output it|print the list} {in|as} {<layout>|<tongue>}{ only| this time| from now on|}<end>',
    '<polite>{use|keep|avoid|replace|drop|include|mention} {simple words|the same tone|long sentences|emojis|a metaphor|the word "<noun>"|three examples|my name} in {<piece>|your answer|the next version}<end>',
    '{again|once more|next|another one|go on|shorter|now|and now} {in <tongue>|with more detail|as <layout>|for <theme>|but <manner>|please}<end>',
    '{explain|describe|define|sum up} {<theme>|<piece>|what you just wrote|the rules of chess|your answer}{ <manner>| in <layout>|}<end>',
    '<polite>{act|talk|speak|answer} {like|as} <guise> {<scene>|}<end>',
    '{pretend to be|imagine you are|play|you are} <guise> {<scene>|}<end>',
    '{begin|start|end|finish} {the letter|your answer|the speech|every line} with {a question|"<phrase>"|a quote|a greeting}<end>',
  ],
  data: [
    '<polite>{sort|group|filter|order|split|sum up|count} {<sheet> by <column>|<column>|<sheet>}{ from high to low| per month|}<end>',
    '<polite>{delete|hide|remove|add|insert|rename|duplicate|fill} {<column>|the last row|empty cells|a chart|a header|duplicates} {in|from|to} <sheet><end>',
    '<polite>{convert|turn|change} {<measure> into the metric system|<measure>|<sheet> into <layout>|the dates to ISO format}<end>',
    '<polite>{calculate|compute|estimate|find|work out|tell me|give me} {the average of <column>|19 % of 85|the median|the total per week|how much <measure> is|the square root of 50}<end>',
    '<polite>{extract|list|pull|collect|get|show} {all names|every address|the phone numbers|the amounts|the links|<column>} {from|in} {<sheet>|<doc>}<end>',
    '<polite>{draw|plot|make|create|update} {a pie chart|a line chart|a histogram|a pivot table|a dashboard} {of|for|from} {<sheet>|<column>}<end>',
    '<polite>{download|import|export|upload|load|back up|save} {<sheet>|the statistics|the backup} {as <layout>|<when>|and send it to {<who>|<mail>}|to the drive}<end>',
    '<polite>{search|look up|find|google|check} {the population of <place>|flights to <place>|the meaning of "<phrase>"|the score of last night|the share price|reviews of <device>}<end>',
  ],
  travel: [
    '<polite>{book|find|reserve|cancel|change|get} {me|us|} {<ride> to <place>|<ride> in <place>|<ride>}{ <when>| for two| with breakfast|}<end>',
    '<polite>{plan|suggest|recommend|describe|show me} {a weekend in <place>|three days around <place>|sights in <place>|the way to <place>|a restaurant in <place>}<end>',
    '<polite>{share|send|forward|text} {my trip|the booking|the boarding pass|my location|the hotel address|the route} {to|with} {<who>|<mail>}{ <when>|}<end>',
    '<polite>{check|tell me|look up} {the weather in <place>|the gate|when the last train to <place> leaves|visa rules for <place>|the time in <place>}<end>',
    '{take|drive|navigate|guide} me {to <place>|home|to work}{ without motorways| by bike|}<end>',
  ],
  answers: [
    '{go on|continue|more|stop here|once again|keep going|try harder|not bad|thanks}{, <wish>|. <wish>|}<end>',
    '<polite><wish><end>',
    '{now|then|this time|next}, {<wish>|<wish> and <wish>}<end>',
    '<wish>{, and <wish>|: <phrase>|. <wish>}<end>',
    '{what|how|and what|and how} about {<theme>|<place>|<column>|<who>|the second one|a vegan version}{?|}',
  ],
  anything: [
    '<polite><verb> {<object>|the <object>|my <object>|this <object>|all <object>s|it|that|them}<end>',
    '<polite><verb> {the|my|our|that} <object> {<when>|for <who>|with <who>|from {<place>|the list}|and tell me when it is done|and <verb> the <object>|before you <verb> the <object>|again}<end>',
    "{do not|don't|never|always} <verb> {the|my|our} <object> {<when>|without a <object>|for <who>}<end>",
    '{I want|I need|let us|it is time|you have|help me} to <verb> {the|a|my} <object>{ <when>|}<end>',
    "{you can|you may|could we|shall we|let's} <verb> {the|a|my} <object>{ <when>|}{.|?|}",
    '<verb> <object> {and|or|not} <object>',
  ],
}

const FOREIGN_AREAS = {
  german: [
    '{Sende|Schicke|Maile|Gib|Leite} {mir|ihm|uns|dem Team|Frau Krause|der Chefin} {die Datei|den Bericht|das Angebot|die Fotos|eine Kopie|die neue Adresse}{ bitte| bis Freitag| heute noch| weiter|}{.|!|}',
    '{Bitte |}{schreibe|antworte|sag|melde} {Herrn Vogt|meinem Bruder|dem Kunden|der Schule|info@verein.example}, {dass ich später komme|dass alles passt|dass der Termin ausfällt|ob es morgen geht}{.|}',
    '{Schalte|Stelle|Drehe} {die Heizung|das Radio|die Lampe im Flur|den Fernseher|die Musik} {ab|an|aus|leiser|auf 20 Grad}{.| bitte.|}',
    '{Buche|Bestelle|Reserviere|Storniere|Suche|Finde} {mir |}{einen Flug nach Wien|ein Zimmer in Köln|zwei Karten|einen Tisch um acht|Druckerpapier}{.| für Montag.|}',
    '{Übersetze|Kürze|Korrigiere|Verbessere|Wiederhole|Formuliere} {den Absatz|diesen Satz|meine Bewerbung|die letzte Antwort|die Rede}{ ins Französische| höflicher| noch einmal|}{.|}',
    '{Lösche|Ignoriere|Vergiss|Verschiebe|Öffne|Drucke|Speichere} {die alte Version|meine letzte Mail|den Termin|die doppelten Zeilen|die Einkaufsliste|den Tippfehler|die zweite Datei}{.| bitte.|}',
    '{Erinnere mich|Weck mich|Ruf mich} {um halb sieben|morgen|am Dienstag}{ an die Steuer| an den Müll| an|}{.|}',
    '{Erzähl|Gib|Nenne|Zeig} mir {einen Witz|ein Rezept mit Linsen|drei Ideen für ein Geschenk|alle offenen Aufgaben|die Regeln von Skat|den Weg zum Bahnhof}{.|}',
  ],
  spanish: [
    '{Manda|Envía|Pasa|Reenvía|Comparte} {el archivo|la factura|las fotos|el acta|este mensaje} {a Lucía|al equipo|a mi hermano|a ventas@tienda.example}{ mañana| por favor| ahora|}{.|}',
    '{Dile|Escribe|Avisa|Responde} a {Pablo|mi madre|la profesora|el cliente} que {llego tarde|todo está bien|cambia la fecha|acepto}{.|}',
    '{Enciende|Apaga|Sube|Baja|Pon} {la calefacción|la tele|la lámpara|la música|el ventilador}{ a las ocho| por favor|}{.|}',
    '{Reserva|Compra|Busca|Cancela|Pide} {un vuelo a Quito|dos entradas|una mesa|un taxi|leche y pan}{ para hoy| para el sábado|}{.|}',
    '{Resume|Corrige|Traduce|Acorta|Repite} {el texto|mi carta|este párrafo|la respuesta anterior}{ al francés| en tres líneas|}{.|}',
    '{Olvida|Ignora|Elimina|Mueve|Guarda} {mi último correo|la cita del lunes|la fila vacía|el error|el documento viejo}{.|}',
    '{Cuéntame|Dame|Muéstrame|Dime} {un chiste|una receta fácil|la hora en Lima|las reglas del mus|la lista de tareas}{.|}',
  ],
  french: [
    '{Envoie|Transmets|Renvoie|Partage|Donne} {le fichier|la facture|les photos|le devis|ce mail} {à Julie|au client|à mon frère|à contact@mairie.example}{ demain| stp| ce soir|}{.|}',
    "{Dis|Écris|Réponds} à {Paul|ma mère|la directrice} que {je suis en retard|tout va bien|la date change|c'est d'accord}{.|}",
    "{Allume|Baisse|Coupe|Monte|Arrête} {le chauffage|la télé|la musique|le four|la lampe du salon}{ à huit heures| s'il te plaît|}{.|}",
    '{Commande|Achète|Trouve|Annule|Cherche} {un taxi|deux billets pour Nantes|une recette de soupe|du pain|mon rendez-vous}{ pour demain|}{.|}',
    '{Résume|Traduis|Raccourcis|Relis|Répète} {ce texte|mon courrier|le paragraphe|ta dernière réponse}{ en anglais| en deux lignes|}{.|}',
    "{Oublie|Ignore|Supprime|Déplace|Imprime} {mon dernier message|la ligne vide|la réunion de jeudi|la faute|l'ancienne version}{.|}",
    "{Raconte|Montre|Donne|Dis}-moi {une blague|l'heure à Tokyo|les règles du tarot|mes rendez-vous|trois idées de cadeau}{.|}",
  ],
  tongues: [
    '{Invia|Inoltra|Spedisci|Scrivi} {il file|la fattura|le foto|un messaggio} {a Giulia|al cliente|a mio fratello}{ domani| per favore|}',
    '{Accendi|Spegni|Abbassa|Traduci|Correggi|Riassumi|Dimentica|Elimina} {la luce|la musica|questa frase|il testo|la mail di ieri|la riga vuota}',
    '{Mande|Encaminhe|Compartilhe|Escreva} {o arquivo|a nota fiscal|as fotos|uma mensagem} {para a Ana|ao cliente|para minha mãe}{ amanhã| por favor|}',
    '{Ligue|Apague|Traduza|Resuma|Corrija|Esqueça|Cancele} {a luz da sala|o texto|a frase|a reunião|meu último e-mail|a música}',
    "{Mail|Bel|Schrijf|Verplaats|Vertaal|Vergeet|Verwijder|Bestel} {de klant|mijn moeder|het verslag|de afspraak|de oude versie|twee pizza's|deze zin}{ morgen| alsjeblieft|}",
    '{Prześlij|Napisz|Zadzwoń|Przetłumacz|Usuń|Zapomnij|Zamów|Włącz} {ten plik|do Anny|do klienta|to zdanie|starą wersję|o tym|pizzę|muzykę}{ jutro| proszę|}',
    '{Перешли|Пошли|Напиши|Скинь} {файл|счёт|фото|сообщение} {Ивану|клиенту|маме|на адрес info@shop.example}{ завтра| пожалуйста|}',
    '{Включи|Убавь|Закажи|Исправь|Сократи|Забудь|Удали|Игнорируй|Покажи|Расскажи} {музыку|такси|ошибки|текст|про вчерашнее письмо|старый файл|опечатку|погоду|анекдот|список дел}',
    "{Dosyayı Ali'ye|Faturayı müşteriye|Bu cümleyi|Eski sürümü|Salonun ışığını} {gönder|yolla|çevir|sil|kapat}{ lütfen|}",
    '{请|麻烦你|}{把|将}{报告|文件|照片|这封邮件|发票}{发给|转发给|寄给}{老板|客户|妈妈|小李}{。|，谢谢。|}',
    '{请|帮我|}{关掉客厅的灯|打开空调|订一张去上海的票|设一个闹钟|缩短这篇文章|改正错别字|删除旧文件|忘记刚才的订单|忽略上一封邮件|讲个笑话|告诉我今天的天气|写一首关于秋天的诗}{。|}',
    '{報告書|写真|請求書|このメール}を{部長|お客様|母|チーム}に{転送して|メールして|共有して}{ください。|。|}',
    '{エアコンをつけて|音楽を止めて|タクシーを呼んで|この文を短くして|前のメールは無視して|古いファイルを削除して|冗談を言って|今日の天気を教えて}{ください。|。|}',
    '{보고서|사진|영수증|이 메일}{을|를} {고객|엄마|팀}에게 {전달해|보내|공유해} {줘|주세요}{.|}',
    '{불을 꺼|음악을 틀어|택시를 불러|이 문장을 줄여|지난 메일은 무시해|오래된 파일을 삭제해|농담을 해|날씨를 알려} {줘|주세요}{.|}',
  ],
}

/** Letters in which one person asks another person for something. These requests are not commands to the assistant. */
const LETTERS = [
  'SUBJECT: <about>|EMAIL_FROM: <mail>|RECEIVED DATE: {Mon|Tue|Fri}, {03|14|28} {Jan|Jun|Oct} {2021|2023|2024} {09|16}:{04|31}:{12|55}|CONTENT: \n\n<letter>',
  'Subject: <about>\nFrom: <mail>\nTo: <mail>\n\n<letter>',
  '<letter>',
  '<letter>\n\n{Summarise|Answer|Translate|Is there a date in} this {mail|message}{.|?}',
  '{"from": "<mail>", "subject": "<about>", "body": "<ask>. <fact>.", "date": "2024-0{1|5|7}-1{0|3|9}"}',
  "{'sender': '<mail>', 'message': '<ask>. <fact>.', 'read': {True|False}}",
]

/**
 * Maximum number of commands in one sample. Samples contain several commands, because the shield scans recent messages
 * together.
 */
const TURNS_TOGETHER = 4

/**
 * Generates commands, letters and conversations.
 * @param seed the same seed generates the same rows
 * @param count maximum per area; duplicates are dropped
 * @returns `[{ set, label: 0, text }]`
 */
export function makeCommands({ seed, count }) {
  const random = randomOf(seed)
  const { expand, pick, asTyped } = expander(RULES, random)
  const textsOf = (templates) => [
    ...new Set(
      Array.from({ length: count }, () =>
        asTyped(expand(pick(templates)).replace(/ +/g, ' ').replace(/ \./g, '.').trim()),
      ),
    ),
  ]
  const commands = Object.values(AREAS).flatMap(textsOf)
  const talk = () =>
    Array.from({ length: 2 + Math.floor(random() * (TURNS_TOGETHER - 1)) }, () => pick(commands)).join('\n')
  const sets = {
    commands,
    'commands-foreign': Object.values(FOREIGN_AREAS).flatMap(textsOf),
    letters: textsOf(LETTERS),
    talks: Array.from({ length: count }, talk),
  }
  return Object.entries(sets).flatMap(([set, texts]) => texts.map((text) => ({ set: `made-${set}`, label: 0, text })))
}
