// Writes prose that never repeats a text and contains no personal data, secrets or attacks.

const SUBJECTS =
  'the harbour office|a small team of gardeners|the evening ferry|our neighbours from the valley|the old library|each of the visitors|the bakery at the corner|a group of painters|the northern railway|the museum of clocks|every second boat|the school orchestra|a quiet river|the winter market|several of the farmers'
const VERBS =
  'opened|repaired|described|carried|painted|collected|watched|planned|measured|compared|visited|finished|mended|counted|discussed'
const OBJECTS =
  'the wooden bridge|a row of apple trees|two heavy boxes of books|the lights along the shore|an early version of the map|the results of a long summer|a pot of strong tea|the paths behind the mill|a model of the tower|the broken windows|the sound of the bells|several baskets of plums|a list of plants|the colours of the roofs|a short history of the town'
const ENDINGS =
  'before the rain came|because nobody else had time|while the tide went out|after a long pause|without any hurry|as they had done for years|when the frost was over|although it was late|so that the children could see it|with great patience|in spite of the wind|and went home by the lake|until the last lamp was out|which surprised the whole village|for less than anyone had thought'
const ADVERBS =
  'slowly|again|carefully|in spring|on most days|twice|at last|together|in the morning|rather well|once more|almost alone'
const LISTS = [SUBJECTS, VERBS, OBJECTS, ADVERBS, ENDINGS].map((words) => words.split('|'))

/** Returns a function that writes about `chars` characters of new prose. The same seed gives the same texts. */
export function createProse(seed = 1) {
  let state = seed
  const next = (list) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return list[(state >>> 8) % list.length]
  }
  return (chars) => {
    let text = ''
    while (text.length < chars) {
      const sentence = LISTS.map(next).join(' ')
      text += `${sentence[0].toUpperCase()}${sentence.slice(1)}. `
    }
    return text.slice(0, chars)
  }
}
