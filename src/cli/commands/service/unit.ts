/** Prints a systemd unit for this installation. */
import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { printText } from '../../output/output.ts'
import { packagePath } from '../../package.ts'
import { daemonPath } from '../gateway/daemon-process.ts'

/**
 * The directives that a user unit keeps. The other directives need rights that the user's service manager lacks (users,
 * namespaces, mounts). With one of those directives, systemd could not start a user unit.
 */
const USER_DIRECTIVES = new Set([
  ...['Description', 'Documentation', 'StartLimitIntervalSec', 'StartLimitBurst'],
  ...['Type', 'NotifyAccess', 'ExecStart', 'ExecReload', 'Environment', 'StateDirectory', 'StateDirectoryMode'],
  ...['ConfigurationDirectory', 'ConfigurationDirectoryMode', 'Restart', 'RestartSec', 'RestartPreventExitStatus'],
  ...['TimeoutStartSec', 'TimeoutStopSec', 'KillSignal', 'KillMode', 'UMask', 'NoNewPrivileges', 'LimitNOFILE'],
])

export function toCommand(context: CliContext): Command {
  return new Command('unit')
    .description('Print a systemd unit for this installation; nothing is written.')
    .option('--user', 'for your own service manager instead of the system', false)
    .addHelpText(
      'after',
      '\nExamples:\n  aigw service unit | sudo tee /etc/systemd/system/aigw.service\n' +
        '  aigw service unit --user > ~/.config/systemd/user/aigw.service',
    )
    .action((flags: { user: boolean }) => printUnit(context, flags))
}

/** Quotes a path as one word of a systemd command line (systemd.service, Command lines: quoting, `%` and `$`). */
export function toUnitWord(path: string): string {
  const literal = path.replaceAll('%', '%%').replaceAll('$', () => '$$')
  return /^[\w/.+@:%-]+$/.test(literal) ? literal : `"${literal.replace(/["\\]/g, '\\$&')}"`
}

/** Reduces a system unit to a user unit. */
export function toUserUnit(unit: string): string {
  const kept = unit.split('\n').filter((line) => {
    const [, name] = /^([A-Za-z]+)=/.exec(line) ?? []
    return name === undefined ? /^\[|^$/.test(line) : name === 'WantedBy' || USER_DIRECTIVES.has(name)
  })
  return kept
    .map((line) => line.replace(/^WantedBy=.*/, 'WantedBy=default.target'))
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
}

/** Inserts the paths of Node and of this package, except in comments. */
export function toUnit(
  template: string,
  { node, daemon, user }: { node: string; daemon: string; user: boolean },
): string {
  const unit = template.replace(/^(?!#).*@(NODE|AIGWD)@.*$/gm, (line) =>
    line.replaceAll('@NODE@', () => toUnitWord(node)).replaceAll('@AIGWD@', () => toUnitWord(daemon)),
  )
  return user ? toUserUnit(unit) : unit
}

async function printUnit(context: CliContext, { user }: { user: boolean }): Promise<void> {
  await printText(context.io, await systemUnit({ user }))
}

/** Returns the unit of this installation. */
export async function systemUnit({ user }: { user: boolean }): Promise<string> {
  const template = await readFile(packagePath('deploy/aigw.service'), 'utf8')
  return toUnit(template, { node: process.execPath, daemon: daemonPath(), user })
}
