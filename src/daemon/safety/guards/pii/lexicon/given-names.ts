import { wordSet } from './word-set.ts'

/** Common given names of many countries, compiled for this project. Names that are also everyday words are excluded. */
export const GIVEN_NAMES = wordSet(`
aaron abdul abdullah abel abigail adam adela adele adrian adriana adriano agata agnes agnieszka agustin ahmad ahmed aidan aiko
aisha akash akira alain alan alana alba albert alberto alec alejandra alejandro aleksander aleksandra aleksandr aleksei alena alessandra
alessandro alessia alex alexa alexander alexandra alexandre alexandria alexei alexis alfonso alfred alfredo ali alice alicia alina
alisa alison alistair allan allen allison alma alonso alvaro alyssa amanda amara amber amelia amelie amina amir amit amy ana anais
anastasia anders anderson andre andrea andreas andrei andres andrew andrey andrzej andy angel angela angelica angelina angelo angie
angus anil anita anja anjali anke ann anna annabelle anne annegret annelise annemarie annett annette annie annika anouk ansel antal anthony antje
antoine antoinette anton antonia antonina antonio anuradha aoife archie ariana ariel arjun arlene armand armando armin arne arnold arthur
arturo arun arvid asha asher ashley ashok asif astrid athena attila aubrey audrey august aurelie aurora austin ava avery axel aya ayesha
aylin ayse barbara barry bartosz bastian beata beatrice beatrix beatriz becky belinda bella ben benedict benedikt benita benjamin bennett
benoit bente bernadette bernard bernardo bernd bernhard bernice bert berta bertha beth bethany betty beverly bianca bilal birgit birgitta
bjarne bjorn björn blanca bogdan bonnie boris brad bradley brandi brandon branislav brenda brendan brent brett brian bridget brigitte
britta brittany bronwyn bruce bruno bryan bryce caitlin caitlyn caleb callum calvin cameron camila camilla camille candace carina carl carla
carlo carlos carmen carol carolina caroline carolyn carrie casey cassandra catalina catarina caterina catherine cathy cecilia cecile
cedric celeste celia celine cesar chandra chantal charlene charles charlie charlotte chelsea chen cheng cheryl chiara chloe chloé chris
christa christel christian christiana christiane christina christine christoph christophe christopher ciara cillian cindy claire clara
clarence clarissa claude claudette claudia claudine claudio claus clayton clement clemens cliff clifford clive clyde cody colette
colin colleen connie connor conor conrad constance constantin cora corinna corinne cornelia cornelius cory courtney craig cristian cristiano
cristina curtis cynthia cyril cyrus dagmar dagny daisuke damian damien damon dan dana daniel daniela daniele danielle danilo danny
daphne daria dario darius darko darlene darrell darren darryl daryl dave david davide davina dawid dean debbie deborah debra deepak
deirdre delia delphine denis denise dennis derek derrick desiree desmond detlef devon dexter diana diane didier diego dieter
dietmar dilip dimitri dimitris dimitrios dinesh dirk divya dmitri dmitry dolores domenico dominic dominik dominika dominique donald donna
donovan dora doreen doris dorota dorothea dorothy doug douglas duncan dustin dwayne dylan ebba eberhard eddie edgar edith edmund
eduard eduardo edward edwin eileen einar ekaterina elaine eleanor elena eleni eleonora elias elif elijah elin elina elisa elisabeth elise
elizabeth elke ella ellen ellie elliot elliott elmar elsa elsie elvira emanuel emil emilia emilie emiliano emilio emily emma emmanuel
emmie emre enrico enrique enzo eric erica erich erik erika erin ernest ernesto ernst erwin esperanza esteban estela estelle esther ethan
eugene eugenia eugenio eva evan evangeline evelyn ewa ewan fabian fabien fabio fabrice fadi farah farid fatima fatma federica federico
felicia felicity felipe felix ferdinand fernanda fernando filip filippo fiona florence florian folke frances francesca francesco
francine francis francisca francisco franco francois françois françoise frank franklin franz franziska fred freddie freddy frederic frederick
frederik fredrik frida frieda friedrich fritz gabor gábor gabriel gabriela gabriele gabriella gabrielle gael gareth gary gavin geert gemma gene
genevieve geoff geoffrey george georg georges georgia georgina gerald geraldine gerard gerardo gerd gerda gerhard gerrit gertrude ghislaine
giacomo gianluca gianni gilbert gilberto gilles gina giorgio giovanna giovanni gisela giulia giuliano giuseppe giuseppina gladys glen glenda
glenn gloria goran gordon grazia greg gregor gregory greta gretchen grzegorz guadalupe gudrun guido guillaume guillermo gunnar gunther günter
günther gustav gustavo gwen gwendolyn haakon hakan halina hamid hamza hanna hannah hannes hans harald haley harold harriet harrison
harry haruka haruki harvey hasan hassan hayden hayley hazel heather hector hedwig heidi heike heiko heinrich heinz helen helena helene
helga helge helmut hendrik henning henri henrietta henrik henrique henry herbert heribert herman hermann hilary hilda hildegard
hiroshi holger horst howard hubert hugh hugo humberto hussein ian ibrahim ida ignacio igor ilaria ilona ilse imogen imran ines inga
ingeborg inger ingo ingrid inka irena irene irina irma isaac isabel isabell isabella isabelle isaiah isla ismael ivan ivana ivar
ivo ivy iwona jackie jaclyn jacob jacqueline jacques jade jaime jaime jake jakob jakub jaleesa jamal james jamie jan jana jane janet janice janina
janine janis jannik jannis janusz jared jaroslav jasmin jasmine jason javier jayden jayne jean jeanette jeanne jeannie jeff jeffrey
jelena jenna jennie jennifer jenny jens jeremiah jeremy jerome jerry jerzy jesper jesse jessica jessie jesus jill jillian jim jimmy
joachim joan joana joanna joanne joao joaquin jocelyn jochen jodie joe joel joelle joerg johan johann johanna johannes john johnny
jolanta jon jonas jonathan joni jordan jorge jörg jose josé josef josefina joseph josephine josh joshua josie joyce juan juana
juanita judith judy juergen jürgen jules julia julian juliana juliane julie julien juliet julieta juliette julio julius junko jurgen justin justine
justyna jutta kaitlyn kamal kamila karel karen karin karina karl karla karolina karoline karsten kasper katarina katarzyna kate
katerina katharina katherine kathleen kathrin kathryn kathy katie katja katrin katrina kay kayla kazuko keiko keith kelly kelsey ken kendra kenji
kenneth kenny kerry kerstin kevin khadija khaled khalid kieran kim kimberly kirsten kirsty klara klaus knut konrad konstantin
konstantinos krista kristen kristian kristin kristina kristine kristof krystyna krzysztof kurt kyle kylie lajos lakshmi lamar lana lance
lara larissa larry lars lasse laszlo lászló laura lauren laurence laurent lauri lawrence lea leah leander leanne leena leif leila lena
lennart lennox leo leon leona leonard leonardo leonie leonor leopold leroy leslie leticia lewis liam liana lidia liesbeth lilian liliana lillian
lily linda lindsay lindsey linus lisa lise lloyd logan lola lorena lorenz lorenzo loretta lorna lorraine lothar lotte lou louis
louisa louise luc luca lucas lucia lucian luciana luciano lucie lucien lucille lucinda lucy ludovic ludwig luigi luis luisa luka lukas
lukasz luke luna lutz lydia lynn maarten mabel mackenzie maddison madeleine madeline madison maeve magda magdalena magnus mahmoud
maja makoto malcolm malgorzata malik malin manfred manish manon manuel manuela mara marc marcel marcela marcello marcelo marcia
marcin marco marcos marcus marek margaret margarita margaux margit margot margrit marguerite maria mariam marian mariana marianne mariano marie
marielle marija marika marilyn marina mario marion marisa marisol marit marius marjorie markus marlene marlon marta martha
martin martina martine marvin mary maryam masha massimo mateo mateusz mathias mathieu mathilde matilda matias matteo matthew matthias
matthieu mattias maud maura maureen maurice mauricio maurizio max maxim maxime maximilian maya megan mehmet mei melanie melinda melissa
melvin mercedes meredith michael michaela michal michał michel michele michelle mieke mia miguel mika mikael mike mikhail mikkel milan
milena milica mildred millie milos milton mina minna mira miranda mireille miriam miroslav mirko misha mitchell mohamed mohammad mohammed
mohamad mohan moira molly mona monica monika monique morgan moritz morten moses muhammad murat muriel mustafa myriam nadia nadine
nadja nancy naoki naomi natalia natalie natasha nathalie nathan nathaniel neil nelson nicholas nick nicola nicolas nicole niels
nigel nikita nikola nikolai nikolaos nikolas nils nina nisha noah noel noelia noemi nora norbert noreen norma norman nuno odile ofelia olaf ole oleg
oleksandr olga oliver olivia olivier ollie omar oona orlando oscar oskar osman oswald othmar otto owen pablo paloma pamela paola paolo pascal pascale
pat patrice patricia patricio patrick patrik patrizia patryk patsy paul paula paulina pauline paulo pavel pawel paweł pedro peggy penelope
per percy perry pete peter petra petr petros philip philipp philippa philippe phillip phoebe phyllis pia pierre pieter pietro pilar
piotr piper polly poppy prakash pranav priscilla priya rachael rachel radek rafael rafal raffaele rahul rainer raj rajesh ralf ralph
ramesh ramiro ramon ramona randall randy raphael raquel rashid raul ravi raymond rebecca regina reginald reinhard reinhold reiner
renata renate rene rené renee renée renzo rhonda ricardo riccardo richard rick ricky riley rita ritva robert roberta roberto robin rocco rocio
roderick rodney rodolfo rodrigo roger rohan roland rolf roman romain romy ron ronald ronan ronja ronny rosa rosalie rosalind rosanna rosario
roseanne rosemarie rosemary rosie rowan roxanne roy ruben rubén rudi rudolf rudy rufus rupert russell ruth ryan sabina sabine sabrina sadie said
sakura saleh salim sally salma salvador salvatore sam samantha sami samir samira samuel sandeep sander sandra sandro sandy sanjay santiago
sara sarah sascha sasha satoshi saul scarlett scott sean sebastian selena selim selina serena serge sergei sergey sergio seth severin
shane shannon sharon shaun shauna shawn sheila shelby shelley sherry sheryl shirley shreya sibylle sidney siegfried sigrid silas silke
silvia silvio simon simona simone siobhan sofia sofie solange sonia sonja sophia sophie sören søren spencer stacey stacy stanislav stanley
stanislaw stefan stefania stefanie stefano steffen steffi stella stephan stephane stephanie stephen steve steven stewart stuart sue
sunil sunita susan susana susann susanna susanne suzanne svein sven svetlana swen sylvain sylvester sylvia sylvie tadeusz takashi takeshi
tamar tamara tamas tamás tammy tania tanja tanya tara tariq tatiana tatjana ted terence teresa teri terrence terry tess tessa thea theo theodor
theodora theodore theresa therese thiago thierry thomas thorsten tiago tibor tiffany till tim timo timothy tina tobias toby todd tom tomas tomasz
tommaso tommy toni tony torben tore torsten tracey tracy travis trevor tricia tristan troy tuomas tyler tyrone uli ulla ulrich ulrike uma umberto
ursula urszula uschi ute uwe valentin valentina valeria valerie valery vanessa vasile vaclav václav veronica veronika veronique vicente vicki vicky
victor victoria vijay vikram viktor viktoria vincent vincenzo viola violeta violetta virginia virginie vitaly vito vittorio vivian viviana vivien
vladimir vladislav volker wade waldemar walter wanda waltraud warren wayne wei wendy werner wesley wilfried wilhelm willem william willie wilma winfried winston wladyslaw
wojciech wolfgang xavier xiao yan yanis yann yannick yara yasmin yasmine yolanda yosef youssef yuki yuri yusuf yves yvette yvonne zachary
zahra zainab zara zbigniew zdenek zoe zoé zofia zoltan zoltán zuzana šárka ángel óscar élise éric étienne
`)
