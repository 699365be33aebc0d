import { wordSet } from './word-set.ts'

/** Forms of address, in lower case and without a final period. */
export const TITLES = wordSet(`
mr mrs ms miss mx dr prof professor sir madam lord lady herr frau monsieur madame mademoiselle mme mlle señor señora señorita sr sra srta signor signora signorina
dott dottoressa dr.ssa dom doña don rev reverend fr sister father capt captain col colonel maj major lt lieutenant gen general sgt sergeant sen senator pres
`)

/** Particles inside personal names. */
export const PARTICLES = wordSet(
  'de da do dos das del della di du la le van von der den ter ten zu zur bin ibn al el y',
)

/** The endings of most words for a profession. */
export const PROFESSION_ENDING = /(?:er|or|ist|ant|ian|ive|lead|head|president|clerk|nurse|chief|agent|attorney)$/

/** The legal forms of companies. A name that ends with one is a company, whatever its other words are. */
export const LEGAL_FORMS = wordSet('inc incorporated ltd limited llc llp corp gmbh ohg mbh sarl oyj pty')

/** The last words of company and institution names, in lower case and without periods. */
export const ORGANIZATION_ENDINGS = wordSet(`
inc incorporated ltd limited llc llp lp plc corp corporation co company gmbh ag kg ohg mbh se sa sas sarl srl spa bv nv ab oy oyj as asa aps sl pty pte kk
group holdings holding partners associates ventures capital industries enterprises international technologies technology systems solutions software labs networks
studios pictures records entertainment media press publishing news times pharmaceuticals airlines airways motors railway railways insurance bank bancorp
`)

/** Words that mark a name as an institution. */
export const ORGANIZATION_WORDS = wordSet(`
university college school institute academy ministry department agency authority commission committee council parliament senate congress association society
foundation federation union league club orchestra museum hospital clinic church party army navy police court bank brigade regiment corps
universität hochschule ministerium amt verein stiftung université universidad università instituto
`)

/** Prepositions. If a name follows one of these words and is not in a list, it is assumed to be a location. */
export const PLACE_PREPOSITIONS = wordSet(
  'in from near at to visiting visit outside around towards toward within across throughout reaching leaving toured',
)

/** Determiners. A capitalized name that follows a determiner is assumed to be a thing, not a person. */
export const DETERMINERS = wordSet(
  'the a an this that these those each every any some your our their its my his her no new one another which',
)

/** Names of peoples, languages, religions and parties, as adjectives and as nouns. */
export const NATIONALITIES = wordSet(`
afghan albanian algerian american americans andorran angolan argentine argentinian armenian australian australians austrian azerbaijani bahamian bangladeshi
basque belarusian belgian belizian belizean bolivian bosnian brazilian brazilians british bulgarian burmese cambodian cameroonian canadian canadians catalan chechen chilean chinese
colombian congolese croat croatian cuban cypriot czech czechs danish dane danes dutch ecuadorian egyptian emirati english estonian ethiopian european europeans filipino
finn finnish fijian flemish french frenchman frenchwoman gambian georgian german germans ghanaian greek greeks greenlandic guatemalan haitian hebrew hispanic honduran hungarian
icelandic indian indians indonesian iranian iraqi irish israeli israelis italian italians ivorian jamaican japanese jordanian kazakh kenyan korean koreans kosovar kurdish kuwaiti
kyrgyz laotian latvian lebanese liberian libyan lithuanian luxembourgish macedonian malagasy malawian malaysian maltese maori mauritian mexican mexicans moldovan
mongolian montenegrin moroccan mozambican namibian nepalese nepali nicaraguan nigerian norwegian norwegians omani pakistani palestinian panamanian
paraguayan persian peruvian pole poles polish portuguese qatari quebecois romanian russian russians rwandan samoan saudi saudis scot scots scottish senegalese serb serbian serbs
sicilian singaporean slovak slovakian slovene slovenian somali spaniard spanish sudanese swede swedes swedish swiss syrian taiwanese tajik tanzanian thai tibetan togolese tunisian turk turkish turks
turkmen ugandan ukrainian ukrainians uruguayan uzbek venezuelan vietnamese welsh yemeni zambian zimbabwean
buddhist buddhists catholic catholics christian christians hindu hindus islamic jew jewish jews muslim muslims orthodox protestant protestants sikh sikhs sunni shia shiite mormon
democrat democrats republican republicans communist communists socialist socialists labour tory tories conservatives
`)
