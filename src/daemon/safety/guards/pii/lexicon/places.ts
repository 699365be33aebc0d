import { phraseSet, wordSet } from './word-set.ts'

/** Countries, some regions and large cities, in English and in their own languages. Compiled for this project. */
export const PLACES = phraseSet(`
afghanistan;albania;algeria;andorra;angola;antigua and barbuda;argentina;armenia;australia;austria;azerbaijan;bahamas;bahrain;bangladesh;barbados;
belarus;belgium;belize;benin;bermuda;bhutan;bolivia;bosnia;bosnia and herzegovina;botswana;brazil;brunei;bulgaria;burkina faso;burundi;cambodia;cameroon;canada;
cape verde;cayman islands;central african republic;chile;china;colombia;comoros;congo;costa rica;croatia;cuba;curaçao;cyprus;czech republic;czechia;denmark;
djibouti;dominica;dominican republic;east timor;ecuador;egypt;el salvador;england;equatorial guinea;eritrea;estonia;eswatini;ethiopia;falkland islands;faroe islands;
fiji;finland;france;french guiana;french polynesia;gabon;gambia;germany;ghana;gibraltar;great britain;greece;greenland;grenada;guadeloupe;guam;guatemala;guernsey;guinea;
guinea-bissau;guyana;haiti;honduras;hong kong;hungary;iceland;india;indonesia;iran;iraq;ireland;isle of man;israel;italy;ivory coast;jamaica;japan;
jordan;kazakhstan;kenya;kiribati;kosovo;kuwait;kyrgyzstan;laos;latvia;lebanon;lesotho;liberia;libya;liechtenstein;lithuania;luxembourg;macau;macedonia;
madagascar;malawi;malaysia;maldives;mali;malta;marshall islands;martinique;mauritania;mauritius;mexico;micronesia;moldova;monaco;mongolia;montenegro;
morocco;mozambique;myanmar;namibia;nauru;nepal;netherlands;new caledonia;new zealand;nicaragua;niger;nigeria;niue;north korea;northern ireland;norway;oman;
pakistan;palau;palestine;panama;papua new guinea;paraguay;peru;philippines;poland;portugal;puerto rico;qatar;romania;russia;rwanda;samoa;
san marino;saudi arabia;scotland;senegal;serbia;seychelles;sierra leone;singapore;slovakia;slovenia;solomon islands;somalia;south africa;south korea;
south sudan;spain;sri lanka;st. lucia;sudan;suriname;swaziland;sweden;switzerland;syria;taiwan;tajikistan;tanzania;thailand;togo;tonga;trinidad and tobago;tunisia;
turkey;turkmenistan;tuvalu;uganda;ukraine;united arab emirates;united kingdom;united states;united states of america;uruguay;uzbekistan;vanuatu;
vatican city;venezuela;vietnam;wales;yemen;zambia;zimbabwe;deutschland;österreich;schweiz;españa;italia;brasil;méxico;polska;sverige;norge;danmark;suomi;nederland;
ussr;soviet union;uk;usa;u.s.;u.s.a.;uae;europe;asia;africa;north america;south america;latin america;middle east;scandinavia;
alabama;alaska;arizona;arkansas;california;colorado;connecticut;delaware;florida;hawaii;idaho;illinois;indiana;iowa;kansas;kentucky;louisiana;
maine;maryland;massachusetts;michigan;minnesota;mississippi;missouri;montana;nebraska;nevada;new hampshire;new jersey;new mexico;new york;new york city;north carolina;
north dakota;ohio;oklahoma;oregon;pennsylvania;rhode island;south carolina;south dakota;tennessee;texas;utah;vermont;virginia;west virginia;
wisconsin;wyoming;washington;ontario;quebec;québec;british columbia;alberta;nova scotia;manitoba;saskatchewan;newfoundland;queensland;new south wales;tasmania;
bavaria;bayern;hessen;saxony;catalonia;andalusia;sicily;sardinia;tuscany;lombardy;brittany;normandy;provence;siberia;punjab;kerala;gujarat;maharashtra;
abu dhabi;accra;addis ababa;adelaide;amsterdam;ankara;antwerp;athens;atlanta;auckland;baghdad;baltimore;bangalore;bangkok;barcelona;basel;beijing;beirut;
belfast;belgrade;berlin;bern;bilbao;birmingham;bogotá;bogota;bologna;bonn;boston;bratislava;bremen;brisbane;bristol;brussels;bucharest;budapest;buenos aires;buffalo;cairo;
calgary;cambridge;cape town;caracas;cardiff;casablanca;charlotte;chennai;chicago;cincinnati;cleveland;cologne;colorado springs;copenhagen;córdoba;dakar;dallas;
damascus;delhi;denver;detroit;dhaka;dortmund;dresden;dubai;dublin;düsseldorf;edinburgh;edmonton;essen;florence;frankfurt;gdańsk;geneva;genoa;glasgow;gothenburg;göteborg;
graz;guadalajara;guangzhou;hague;hamburg;hannover;hanoi;havana;helsinki;ho chi minh city;honolulu;houston;hyderabad;indianapolis;istanbul;jakarta;jeddah;
jerusalem;johannesburg;karachi;kathmandu;kiev;kyiv;kolkata;köln;kraków;krakow;kuala lumpur;københavn;kyoto;lagos;lahore;las vegas;leeds;leicester;leipzig;lille;lima;
lisbon;lisboa;liverpool;ljubljana;london;los angeles;lyon;madrid;malaga;málaga;manchester;manila;marseille;medellín;melbourne;memphis;miami;milan;milano;milwaukee;minneapolis;
montevideo;montreal;montréal;moscow;mumbai;munich;münchen;nagoya;nairobi;nantes;naples;nashville;new delhi;new orleans;newcastle;nottingham;nuremberg;oakland;osaka;
oslo;ottawa;oxford;palermo;paris;perth;philadelphia;pittsburgh;porto;porto alegre;prague;praha;pune;reykjavik;reykjavík;riga;rio de janeiro;riyadh;
rome;roma;rotterdam;sacramento;salt lake city;salzburg;san antonio;san diego;san francisco;san jose;santiago;sao paulo;são paulo;seattle;seoul;seville;
sevilla;shanghai;sheffield;shenzhen;sofia;southampton;st. louis;st. petersburg;stockholm;stuttgart;sydney;taipei;tallinn;tampa;tehran;tel aviv;tirana;tokyo;
toronto;toulouse;tunis;turin;torino;uppsala;utrecht;valencia;vancouver;venice;vienna;wien;vilnius;warsaw;warszawa;wellington;winnipeg;wrocław;yokohama;zagreb;
zaragoza;zurich;zürich
`)

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
