import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { runDaemon } from './daemon-process.ts'

export type ServeInput = { config?: string; listen?: string; dataDir?: string; check?: boolean }

export function toCommand(context: CliContext, run = serve): Command {
  return new Command('serve')
    .description('Run the gateway on this machine until it is told to stop; the same as aigwd.')
    .option('--config <file>', 'configuration file (AIGW_CONFIG)')
    .option('--listen <host:port>', 'address to listen on (AIGW_LISTEN), default 127.0.0.1:8787')
    .option('--data-dir <dir>', 'where the store lives (AIGW_DATA_DIR)')
    .option('--check', 'check the configuration and leave; exit 78 when it does not hold')
    .addHelpText('after', '\nExit code: that of the daemon; 78 for a configuration that does not hold.')
    .action((flags: ServeInput) => run(context, flags))
}

/** The daemon's flags; what was not given is left to its environment and its file. */
export const toDaemonArgs = ({ config, listen, dataDir, check }: ServeInput): string[] => [
  ...(config === undefined ? [] : ['--config', config]),
  ...(listen === undefined ? [] : ['--listen', listen]),
  ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ...(check === true ? ['--check'] : []),
]

export async function serve(context: CliContext, input: ServeInput): Promise<void> {
  context.exitCode = await runDaemon(toDaemonArgs(input), context.io)
}
