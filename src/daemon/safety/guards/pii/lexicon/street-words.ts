import { wordSet } from './word-set.ts'

/** Street types that stand at the end of a street name. The words are in lower case and have no periods. */
export const STREET_KINDS_AFTER = wordSet(`
street st str road rd avenue ave av lane ln drive dr boulevard blvd court courts ct place pl square sq terrace ter way highway hwy parkway pkwy circle cir
trail close crescent cres gardens grove row walk mews alley route plaza loop pike crossing hill heights gate gateway union ulica utca út tér krt u
sokak caddesi gatan vägen gata veien vej gade katu tie straße strasse weg gasse platz allee straat laan plein gracht kade
`)

/** Street types that stand at the start of a street name. */
export const STREET_KINDS_BEFORE = wordSet(`
rua avenida av travessa praça largo calle carrer paseo plaza camino via viale corso piazza vicolo rue avenue boulevard chemin place impasse allée quai
ul ulica aleja al os strada bulevardul ulitsa prospekt utca
`)

/** Suffixes of one-word street names: "Hauptstraße", "Puistokatu". */
export const STREET_ENDINGS =
  /(?:\p{L}{2}(?:str\.?|straße|strasse|weg|gasse|platz|allee|damm|gatan|vägen|gränd|veien|vegen|gata|vej|gade|stræde|katu|tie|polku|kuja|straat|laan|plein|gracht|kade))$/u

/** Street types that are certain even in lower case: "way", "court" and "row" are everyday words. */
export const STREET_WORDS = wordSet('street st road rd avenue ave boulevard blvd lane ln')

/** Words that mark the following number as part of an address. */
export const UNIT_WORDS = wordSet('apt apartment suite ste flat room rm floor unit box psc postfach apartado bp')
