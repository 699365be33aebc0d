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
  [raw`(?:(?:\\x|0x|%)?[0-9a-fA-F]{2}[ :,]?){10,}`, 'from any place it fails within 10 bytes, or takes the whole run'],
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
])

/** Patterns that are built from strings at startup: their number per file, and why they take linear time. */
export const MADE_PATTERNS: Readonly<Record<string, { count: number; reason: string }>> = {
  'dlp/regex-search.ts': { count: 1, reason: 'a fixed text' },
  'pseudonyms.ts': { count: 2, reason: 'a fixed number of characters of two sets that have none in common' },
  'pii/dates.ts': { count: 2, reason: 'sticky, and of bounded parts; names of months before a place' },
  'pii/identity-rules.ts': { count: 1, reason: 'sticky, and of bounded parts' },
  'pii/labelled-rules.ts': { count: 1, reason: 'words before a place, in a stretch of bounded length' },
  'pii/numbering-plans.ts': { count: 1, reason: 'for one number of at most 17 digits' },
  'shield/letters.ts': { count: 1, reason: 'one set of characters' },
}
