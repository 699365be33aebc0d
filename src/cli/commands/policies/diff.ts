/** Compares two policies. */
import { Command } from 'commander'
import type { z } from 'zod'
import type { DiffPoliciesResponse } from '../../../shared/wire/policies.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { isObject, readFields } from '../../input/from-file.ts'
import { columns } from '../../output/formats.ts'
import { POLICIES, POLICY_MEMBERS } from './resource.ts'

export function toCommand(context: CliContext): Command {
  const side = 'a policy by name or id, or @FILE'
  return new Command('diff')
    .description('Show the fields in which two policies differ.')
    .argument('<from>', side)
    .argument('<to>', side)
    .addHelpText(
      'after',
      '\nExamples:\n  aigw policies diff internal confidential\n  aigw policies diff ours @ours.yaml',
    )
    .action((from: string, to: string) => diff(context, from, to))
}

/** POST /smltp-policies/diff. Throws an error with exit code 3 for an unknown policy. */
async function diff(context: CliContext, from: string, to: string): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(DIFF_VIEW)
  const json = { from: await sideOf(context, from), to: await sideOf(context, to) }
  const { body, raw } = await api.send<z.infer<typeof DiffPoliciesResponse>>({
    method: 'POST',
    path: `${POLICIES.path}/diff`,
    json,
    repeatable: true,
  })
  await output.list(body.data.differences, DIFF_VIEW, raw)
}

/** Returns one side of the comparison: the name of a policy, or the document in a file. */
async function sideOf(context: CliContext, given: string): Promise<string | object> {
  if (!given.startsWith('@')) return given
  const { policy } = await readFields(context, given.slice(1), { ...POLICY_MEMBERS, ...SHOWN_ONLY })
  if (isObject(policy)) return policy
  throw usageError(`${given.slice(1)} needs a member 'policy' with the document`)
}

/** Members that only `show` prints. A file that was made from the output of `show` may contain these members. */
const SHOWN_ONLY = { id: true, type: true, isActive: true, policyHash: true, createdAt: true, updatedAt: true }

/** Formats the value of a field in one of the two policies. */
const toText = (value: unknown) => (Array.isArray(value) ? value.join(',') : String(value))

const DIFF_VIEW = {
  columns: columns({ FIELD: 'path', FROM: ['from', toText], TO: ['to', toText] }),
  idPath: 'path',
  members: ['path', 'from', 'to'],
  none: 'No differences.',
}
