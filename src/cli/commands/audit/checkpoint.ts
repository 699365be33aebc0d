import { appendFile } from 'node:fs/promises'
import { Command } from 'commander'
import type { z } from 'zod'
import type { CheckpointsResponse } from '../../../shared/wire/evidence.ts'
import { notAGateway } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { EXIT, unwritable } from '../../errors.ts'
import { TRANSPARENCY } from '../../evidence/gateway-source.ts'
import { isPlain } from '../../output/output.ts'

type Flags = { out?: string; chain?: string }
export type CheckpointInput = Flags

const MEMBERS = ['chain', 'tree_size', 'root', 'kid', 'note', 'created_at']
const VIEW = {
  idPath: 'chain',
  members: MEMBERS,
  none: 'The log is empty.',
  columns: MEMBERS.filter((path) => path !== 'note').map((path) => ({ path })),
}

export function toCommand(context: CliContext, run = makeCheckpoints): Command {
  return new Command('checkpoint')
    .description(
      'Have the gateway sign how far its log goes now, and print the signed notes. Kept where the gateway cannot reach\n' +
        'them, they show later that nothing was taken out: aigw audit verify --checkpoint FILE',
    )
    .option('--out <file>', 'add them to the end of this file')
    .option('--chain <chain>', 'of this chain only')
    .action((flags: Flags) => run(context, flags))
}

/** POST /transparency/checkpoints. */
export async function makeCheckpoints(context: CliContext, { out, chain }: CheckpointInput): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  const { body, raw, requestId } = await api.send<z.infer<typeof CheckpointsResponse>>({
    method: 'POST',
    path: `${TRANSPARENCY}/checkpoints`,
    json: chain === undefined ? {} : { chain },
    repeatable: true,
  })
  const { checkpoints } = body
  if (!Array.isArray(checkpoints)) {
    throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with checkpoints`, { requestId })
  }
  // One empty line between two, so that a file of them can be read by people too.
  const notes = checkpoints.map(({ note }) => `${note}\n`).join('')
  if (out !== undefined) {
    await appendFile(out, notes, { flush: true }).catch((error: unknown) => {
      throw unwritable(out, error)
    })
    await context.note(`Added ${checkpoints.length} checkpoints to ${out}.`)
  }
  return out === undefined && isPlain(settings) ? output.text(notes) : output.list(checkpoints, VIEW, raw)
}
