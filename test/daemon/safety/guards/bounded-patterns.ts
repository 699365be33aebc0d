const raw = String.raw

/**
 * Patterns that the check cannot prove linear, with the limit that makes them linear: they match stretches of bounded
 * length, or
 * read a bounded number of characters from each position.
 */
export const BOUNDED_PATTERNS: ReadonlyMap<string, string> = new Map([
  [raw`(?<![\p{L}\p{M}\d])(?:\p{L}[\p{L}\p{M}'’-]{0,30}\.? ?#?,?(?: |$)){1,4}$`, 'the characters just before a number'],
  [raw`(?<![\p{L}\p{M}\d])(\p{L}[\p{L}\p{M}'’-]{0,30})(\.?) $`, '36 characters before a place'],
  [raw`[-._]{1,253}$`, 'one domain, which ends where its characters do, at most 253 of them from any place'],
  [raw`(\p{Ll}+),? $`, 'the characters just before a name'],
  [raw`(?:^|[.!?:;\n\r>•*|#([{"“”«]|[-–]\s)\s*$`, '8 characters before a name'],
  [raw`(\p{L}+) $`, 'the characters just before a name'],
  [
    raw`(?:sp[eo]ak\w*|stud(?:y|ies|ied|ying)|learn\w*|teach\w*|taught|translat\w* (?:in)?to|written in|fluent in) $`,
    'the characters just before a name',
  ],
  [raw`(?:[Tt]he )?corner of [^.,;:!?\n]*$`, 'the last 64 characters of a text'],
  [raw`([A-Za-z]{2})\d{2}[A-Za-z0-9]*$`, 'one group of at most 64 characters'],
  [raw`^[a-z0-9-]*\.?[a-z0-9-]+(?:\.[a-z]{2,24})?(?![A-Za-z])`, 'the first 64 characters of a line'],
  [raw`(?:[01]{8}[ ,]?){4,}`, 'from any place it fails within 4 bytes, or takes the whole run'],
  [
    raw`\bpsexec(?:\.exe)?["']?\s[^\n]{0,160}?\s-p\s{1,4}(?<value>[^\s"'<>,;()%$]{4,128})`,
    '170 characters after each name of the program',
  ],
  [raw`!\[[^\][\n]{0,100}\]\(https?:[^)\s]{0,200}[?&][^)\s=]{1,40}=`, '350 characters from any place'],
  [raw`!\[[^\][\n]{0,100}\]\(https?:[^)\s]{0,200}[?=]`, '310 characters from any place'],
  [
    raw`\[(?:insert|your|prompt|question|query|my|the)[^\]\n]{0,60}\]|\{(?:prompt|query|question|goal|request)\}|<(?:prompt|query|question|insert)[^>\n]{0,40}>`,
    '70 characters from any place',
  ],
  [raw`(?:@|%40)[^\s@/.]{1,63}\.[a-z]{2}`, '70 characters from any place'],
  [raw`["“«\x60]([^"”»\x60\n]{4,60})["”»\x60]`, '62 characters from any place'],
])

/** Patterns that are built from strings at startup: their number per file, and why they take linear time. */
export const MADE_PATTERNS: Readonly<Record<string, { count: number; reason: string }>> = {
  'dlp/regex-search.ts': { count: 1, reason: 'a fixed text' },
  'pseudonyms.ts': { count: 2, reason: 'a fixed number of characters of two sets that have none in common' },
  'pii/dates.ts': { count: 2, reason: 'sticky, and of bounded parts; names of months before a place' },
  'pii/identity-rules.ts': { count: 1, reason: 'sticky, and of bounded parts' },
  'pii/labelled-rules.ts': { count: 1, reason: 'words before a place, in a stretch of bounded length' },
  'view/plain-text.ts': { count: 1, reason: 'one set of characters' },
  'pii/addresses.ts': { count: 1, reason: 'after fixed words, and of bounded parts' },
  'pii/script-names.ts': { count: 4, reason: 'sticky, and of bounded parts' },
  'shield/spelling.ts': { count: 1, reason: 'one set of characters' },
  'pii/numbering-plans.ts': { count: 1, reason: 'for one number of at most 17 digits' },
  'prompt-leak/secrets.ts': { count: 2, reason: 'bounded parts, in a system prompt that is read once' },
  'request/tool-poisoning.ts': { count: 1, reason: 'bounded parts, in windows of 4,096 characters' },
  'urls/control-sequences.ts': { count: 2, reason: 'bounded parts; the end of a text within 600 characters' },
  'urls/spans.ts': { count: 1, reason: 'bounded parts' },
}
