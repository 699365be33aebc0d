/** Explains what the prompt shield finds in a text. */
import { Command } from 'commander'
import type { ShieldSource } from '../../../shared/wire/shield.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { addTextOrFile, readTextOrFile } from '../../input/text-input.ts'
import { columns } from '../../output/formats.ts'
import { forTerminalLine } from '../../output/terminal-text.ts'
import { addScanOptions, type Scan, type ScanFlags, scan, sourceOption, toScanOptions } from './scan.ts'

type Explanation = NonNullable<Scan['explanation']>
type Piece = Explanation['pieces'][number]
type Finding = Piece['findings'][number]
type Flags = ScanFlags & { file?: string; source: ShieldSource }

export function toCommand(context: CliContext): Command {
  const command = new Command('explain').description(
    'Show the verdict of the prompt shield and what each layer finds in each piece of a text. The text is not stored.\n' +
      'Exit 0 for every verdict.',
  )
  return addScanOptions(addTextOrFile(command))
    .addOption(sourceOption())
    .addHelpText(
      'after',
      "\nExample:\n  aigw shield explain --source retrieved -f page.txt\n  aigw shield explain 'Hello!'",
    )
    .action((text: string | undefined, flags: Flags) => explainText(context, text, flags))
}

/** POST /prompt-shield/scan with `explain`. */
async function explainText(context: CliContext, text: string | undefined, flags: Flags): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const prompt = await readTextOrFile(context, text, flags.file)
  const { body, raw } = await scan(api, prompt, { ...toScanOptions(flags), source: flags.source, explain: true })
  const { success: _, ...found } = body
  if (found.explanation === undefined) {
    throw new CliError(EXIT.error, 'this gateway does not explain scans', {
      code: 'NOT_EXPLAINED',
      hints: ['Update the gateway, or use:  aigw shield check'],
    })
  }
  await output.textOrOne(toReport(found, found.explanation), found, VIEW, raw)
}

const VIEW = { columns: columns({ VERDICT: 'verdict', SCORE: 'riskScore', CATEGORY: 'attackCategory' }) }

/** Formats the report for people. */
function toReport(found: Omit<Scan, 'success'>, explanation: Explanation): string {
  const { source, pieces, omittedPieces, findings } = explanation
  const lines = [
    `${found.verdict}, score ${found.riskScore}${found.categoryLabel ? `: ${found.categoryLabel}` : ''}`,
    found.recommendation,
    '',
    ...reasonsOf(explanation),
    '',
    `Pieces of the text, read as source '${source}':`,
    ...pieces.flatMap(toPieceLines),
  ]
  if (omittedPieces > 0) lines.push(`${omittedPieces} pieces with lower scores are not shown.`)
  if (findings.length > 0) lines.push('', 'Findings about the whole text:', ...findings.map(toFindingLine))
  return lines.map((line) => `${line}\n`).join('')
}

function reasonsOf({ calibration, builtInScore, model, judge }: Explanation): string[] {
  const { pieces, scoreAsOnePiece } = calibration
  const reasons =
    scoreAsOnePiece === null
      ? [`The findings give the score ${builtInScore}.`]
      : [
          `The built-in layers give the score ${builtInScore}. The worst of ${pieces} scored pieces decides (marked >).`,
          `If this piece were the whole text, it would score ${scoreAsOnePiece}.`,
        ]
  if (model) {
    const { probability } = model
    reasons.push(
      `The operator's model: ${probability === null ? 'no answer' : `attack with probability ${probability}`}.`,
    )
  }
  if (judge) {
    const part = judge.readAll ? '' : ', after reading a part of the suspicious text'
    reasons.push(`The judge: ${judge.attack ? 'an attack' : 'no attack'}, confidence ${judge.confidence}${part}.`)
  }
  return reasons
}

function toPieceLines({
  start,
  end,
  hiddenBy,
  text,
  words,
  riskScore,
  probability,
  decides,
  findings,
}: Piece): string[] {
  const place = hiddenBy
    ? `decoded from ${hiddenBy}`
    : start === null
      ? 'changed letters'
      : `characters ${start} to ${end}`
  const layer = probability === null ? [] : [`      ml         classifier: attack with probability ${probability}`]
  return [
    `${decides ? '>' : ' '} score ${String(riskScore).padStart(3)}  ${place}, ${words} words`,
    `      ${JSON.stringify(forTerminalLine(text))}`,
    ...findings.map(toFindingLine),
    ...layer,
  ]
}

const toFindingLine = ({ layer, pattern, category, confidence, matched }: Finding): string =>
  `      ${layer.padEnd(10)} ${pattern}: ${category}, confidence ${confidence}${matched ? `, ${JSON.stringify(forTerminalLine(matched))}` : ''}`
