import { wordSet } from './word-set.ts'

/** Common surnames of many countries, compiled for this project. Names that are also everyday words are excluded. */
export const SURNAMES = wordSet(`
adams adamson aguilar ahmed alexander ali allen almeida alonso alvarez álvarez andersen anderson andersson andersen antonov araujo arnold
bailey bakker barbosa barnes bauer baumann becker beckett bennett bergman bergström berger bernard bertrand bianchi blanc boyd bradley braun brooks brown bruno
bryant burgess burke burns byrne cabrera caldwell calvo campbell cardoso carlson carpenter carroll carter caruso castillo castro
chan chang chapman chavez chen cheng choi chowdhury christensen christiansen clark clarke coleman collins colombo conti cooper costa cox cruz cunningham
czarnecki dahl daniels das davies davis delgado deluca desai diaz díaz diaz dietrich dijkstra doyle dubois duarte dumont dunn dupont durand
duran edwards ekström eliasson ellis engel engström eriksen eriksson esposito evans fernandes fernandez fernández ferrari ferreira fischer fisher fitzgerald fleming flores fontaine
ford foster fournier fowler franke friedrich fuchs fuentes garcia garcía garnier gallagher gallo gibson gomes gomez gómez gonzales
gonzalez gonzález graham greco greene griffin griffiths grant gruber guerrero gupta gutierrez gutiérrez guzman haas hahn hamilton hansen hansson harris harrison
hartmann hawkins hayes henderson henriksen hermann hernandez hernández herrera herrmann hicks hill hoffman hoffmann hofmann holm holmes horvat horvath horváth howard huang huber
hudson hughes hussain ibrahim iglesias ionescu ivanov ivanova jackson jacobs jacobsen jansen jankowski janssen jenkins jensen jimenez jiménez johansen johansson
johnson johnston jones jovanovic jørgensen kaminski karlsson katz kaufmann kelly kennedy khan kim kimura klein kobayashi koch
kovač kovacs kovács kowalczyk kowalski kozlov kramer kraus krause krüger kruger kuhn kühn kumar kuznetsov lambert lang lange larsen larsson laurent lefebvre
lehmann leroy lewandowski lewis lin lindberg lindgren lindqvist liu lombardi lopes lopez lópez lorenz ludwig lund lundberg maclean macdonald magnusson mahler maier mancini
marino marshall martin martinez martínez martins mason matthews mayer mazur mccarthy mcdonald mckenzie mclean medina mehta meier meijer mendes mendez mendoza meyer
meza michel miller mitchell mohamed molina möller moller morales moreau moreira morel moreno moretti morgan morris morrison moser mulder müller muller muñoz murphy
murray nakamura navarro nelson neumann newman nguyen nielsen nilsen nilsson novak nowak nunes núñez obrien oconnor oliveira olsen olson olsson oneal oneill ortega
ortiz østergaard owens palmer papadopoulos parker patel patterson pavlov pedersen pena peña pereira perez pérez perkins peters petersen peterson petersson petit petrov petrova pettersson
pham phillips pinto popescu popov powell powers prieto quinn ramirez ramírez ramos rasmussen reid reinhardt reyes reynolds ribeiro ricci richards richardson richter rinaldi
rivas rivera rizzo roberts robertson robinson robles rocha rodrigues rodriguez rodríguez rogers rojas romano romero rossi roussel roux rousseau rubio ruiz ruiz russo
ryan sanchez sánchez sanders santana santiago santos sato schäfer schaefer schmid schmidt schmitt schmitz schneider scholz schreiber schröder schroeder schubert schulte schultz schulz
schumacher schuster schwartz schwarz serrano shaffer sharma shevchenko silva simmons simmons simpson singh smirnov smith snyder soares sokolov sørensen sousa
soto souza stein stephens stevens stewart sullivan suzuki svensson szabo szabó szymanski tanaka taylor teixeira thomas thompson thomsen tkachenko torres tóth toth tremblay
turner ueda vargas vasquez vásquez vazquez vega verma vidal vieira villa virtanen visser vogel volkov wagner walker wallace walsh walters wang ward watanabe watkins watson
weber webster weiss wieczorek williams williamson wilson winkler wiśniewski wójcik wolff wong wright wu xu yamamoto yang yilmaz young zhang zhao zhou ziegler zieliński zimmerman zimmermann
`)
