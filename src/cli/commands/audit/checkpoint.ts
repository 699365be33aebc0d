/** Creates signed checkpoints of the log. */
import { appendFile } from 'node:fs/promises'
import { Command } from 'commander'
import type { z } from 'zod'
import type { CheckpointsResponse } from '../../../shared/wire/evidence.ts'
import { notAGateway } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { EXIT, failedToWrite } from '../../errors.ts'
import { openGateway, TRANSPARENCY } from '../../evidence/gateway-source.ts'
import { fetchKeys } from '../../evidence/key-set.ts'
import { compareWithMemory, openMemory } from '../../evidence/remembered.ts'
import { isPlain } from '../../output/output.ts'

type Flags = { out?: string; chain?: string }

const MEMBERS = ['chain', 'tree_size', 'root', 'kid', 'note', 'created_at']
const VIEW = {
  idPath: 'chain',
  members: MEMBERS,
  none: 'The log is empty.',
  columns: MEMBERS.filter((path) => path !== 'note').map((path) => ({ path })),
}

export function toCommand(context: CliContext): Command {
  return new Command('checkpoint')
    .description(
      'Sign the current size of the log, and print the signed notes. Keep them out of reach of the gateway: they later\n' +
        'prove that no entry was removed. Verify them with:  aigw audit verify --checkpoint FILE',
    )
    .option('--out <file>', 'append them to this file')
    .option('--chain <chain>', 'only of this chain')
    .action((flags: Flags) => makeCheckpoints(context, flags))
}

/** POST /transparency/checkpoints. */
async function makeCheckpoints(context: CliContext, { out, chain }: Flags): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  const memory = await openMemory(context)
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
  if (memory.gatewayFolder !== undefined) {
    // The response contains only the new checkpoints. The list contains each log, so a missing log is noticed.
    const { latest = [] } = await openGateway(context)
    const current = [...latest, ...checkpoints]
    await compareWithMemory(context, memory, { trusted: await fetchKeys(context), current })
  }
  // An empty line between two notes makes the file easier for people to read.
  const notes = checkpoints.map(({ note }) => `${note}\n`).join('')
  if (out !== undefined) {
    await appendFile(out, notes, { flush: true }).catch(failedToWrite(out))
    await context.note(`Added ${checkpoints.length} checkpoints to ${out}.`)
  }
  return out === undefined && isPlain(settings) ? output.text(notes) : output.list(checkpoints, VIEW, raw)
}
