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

/**
 * Everyday words that are often capitalized, at the start of sentences or in headings. This list complements the stop
 * words.
 */
export const EVERYDAY_WORDS = wordSet(`
able about above absolutely accept access according account accounts across act action actions active actually add added adding additional additionally address administration admin advanced adventure after afterwards again agent agents ago agree
all allow allows almost alone along already also alternatively although always amazing amount an analysis and animation announcement another answer answers any anyone anything anyway api apparently appears appendix apple application apply applied approach april
are area around arrange article as ask asked assert assistant assume at attention attached august author authors available avoid away awesome back background bad bank base based basic basically be because become been before begin being believe below benefits best better
between beyond big bill billing black blue book bot both bottom bowl box boy bring browser bug build building business but button buy by bye cache call called can cannot capital car card care case category cause center central century certain certainly chair
change changes chapter charge chat check checking chief child children choose christmas church city class clean clear click client close cloud code collection color come comedy coming comments common community company compare complete component computer concert
conference configuration config connect consider consumer contact contains content contents context continue contributing control convert cool copy correct cost could country couple course cover create created creates creating credit crime criteria critical culture current currently customer customers daily dance dark data database
date day days deal dear death december decide deep default defines delete delivery demo department describe description design despite details determine developer development device did different directed direction director directory do doctor document documentation documents does doing don done
door double down download drama draw drive driver due during each earlier early earth east eastern easy economic edit editor education effect either election else email employee empty enable encouraged end energy engine english enjoy enough ensure enter environment equal error errors especially essay
even event events ever every everyone everything evidence exactly example examples except excuse exercise exit expected experience expert explain express extension external fact factory fall family famous far fast father favorite feature features february feel few field fields figure file files film final finally
find fine fire first five fix flag follow following food for force foreign form format former fortunately forward found four free french fresh friday friend from front full fun function functions fund fundamental further future game games general generally generate get getting girl give given gives global go goal god going gold good
got government great green group groups growth guide guilty had hall hand handle happy hard has hate have having he head header health hear hello help helped helpful hence her here hers hey hi hidden high higher his history hit hold home hope hot hotel house how however human i idea ideas identify if image images
imagine implement import important impact in include included includes including increase indeed index industry info information initial input inside insert install installation installing instead instruction instructions insurance integration interested interesting interface internal international internet into introduction investment is island issue issues it item items its itself january job join journal july june
just keep key keys kids kind king know known label land language large last late later latest launch law lead learn learning least leave left legal less lesson let letter level library license life light like likewise limit limited line link links linux list listen little live load local location log login logo long look looking lord lost lot
love low lower machine mail main maintain make makes making man management manager many map march mark market marketing master match math matter may maybe mayor me mean meanwhile media medical meet meeting member members memory men mentioned message messages method methods middle military million mind mine minimum minister minor minute mission mobile mode
model models modern module monday money month months more moreover morning most mother mountain mouse move moved movie much music musical must my myself mystery name named names national native natural nature navigate near necessary need needed neither network never nevertheless new news next nice night nine no nobody node non none nonetheless nor
normal north northern not note notes nothing notice november now number numbers object objects observe obviously october of off offer offers office official often oh ok okay old on once one ones online only open opening operation operations option optional options or oracle orange order orders organization original other others otherwise our out output outside over overall overview own
package packages page pages pain paper paragraph parameter parameters parent park part parts party pass password past path patient pattern pay payment peace people per perhaps period permission person personal personally phone photo physical picture place plan plant platform play player players please plus point points police policy political poor popular position possible
post power powerful practice pre prefer prepare present president press pressure pretty previous previously price primary prince princess principal print private probably problem problems process produce product production products professional profile program programming project projects promise prompt properties property protect protection protocol proud provide provided provider provides public publish published pull push put python quality
query question questions quick quickly quite race random range rather rating reach read readme reading ready real reality really reason receive recent recently recipe recommended record records red reduce ref refer reference regarding regards region regular related release religion remarkably remember remove repeat replace reply report reports repository request requests require required requirements research reset resource resources
response rest restaurant result results return returns review right rights river road role roll romance room root route routes row rule rules run running runs safe said salary sale sales same sample saturday save saw say says scene schedule school science script search season second secret secretary section secure security see seem select self send senior
sentence september series serve server service services session set setting settings setup seven several shall share she ship shop short should show showed shows side sign signature similar similarly simple simply since single sir sister site six size skip sky small snow so social society software solution some someone something sometimes somewhere son song songs soon sorry
sound source sources south southern space speak special specific specifically specify sport spring square staff stage standard star start started starting state statement states station status stay step steps still stop storage store stories story straight stream street string strong structure student students studio study style subject success such sudden suddenly suggest suggested summary summer sun
sunday super support supports supreme sure surely system systems table tag take taken takes talk target task tasks tax teacher team tech technical technology tell template ten term terms test testing tests text than thank thanks that the their them theme themselves then there therefore these they thing things think third this those though thought three thriller through throughout thursday
thus ticket tie time times tip tips title to today together token tomorrow tonight too took tool tools top topic total touch tour toward town track trade traditional train training transfer translate translation travel tree tribute try tuesday turn tv tweet two type types typescript under understand unfortunately unique unit united unless unlike until up update updated updates upload upon us usage
use used user users uses using usually utility valid value values variable variables various verify version versions very via video view virtual visit vote wait walk want war warning was watch water way we web website wednesday week weekend weeks weight welcome well went were west western what whatever when whenever where whereas whether which while white who whole whose why wife wild will win wind window windows winter
with within without wizard woman women won wonder wonderful word words work worker working works world would wow write writer writing written wrong yeah year years yellow yes yesterday yet you young your yours yourself zero zip zone
ask describe summarize summarise explain generate translate act ignore imagine pretend provide rewrite compose discuss compare evaluate calculate convert classify extract highlight propose recommend analyze analyse assistant chatgpt openai gpt claude llm ai json html css xml sql http https url csv pdf yaml javascript java react node docker kubernetes github git google microsoft amazon facebook twitter
wikipedia internet covid monday internal external bible christmas easter halloween thanksgiving renaissance
`)
