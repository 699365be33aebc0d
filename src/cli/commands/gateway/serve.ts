import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { runDaemon } from './daemon-process.ts'

type Flags = { config?: string; listen?: string; dataDir?: string; check?: boolean }

export function toCommand(context: CliContext): Command {
  return new Command('serve')
    .description('Run the gateway on this machine until it is stopped; the same as aigwd.')
    .option('--config <file>', 'configuration file (AIGW_CONFIG)')
    .option('--listen <host:port>', 'address to listen on (AIGW_LISTEN), default 127.0.0.1:8787')
    .option('--data-dir <dir>', 'directory of the store (AIGW_DATA_DIR)')
    .option('--check', 'check the configuration and exit; exit 78 if it is invalid')
    .addHelpText('after', '\nExit code: that of the daemon; 78 for an invalid configuration.')
    .action(async (flags: Flags) => {
      context.exitCode = await runDaemon(toDaemonArgs(flags), context.io)
    })
}

/**
 * Returns the daemon's flags. If a flag is omitted, the daemon reads the setting from its environment or its
 * configuration file.
 */
export const toDaemonArgs = ({ config, listen, dataDir, check }: Flags): string[] => [
  ...(config === undefined ? [] : ['--config', config]),
  ...(listen === undefined ? [] : ['--listen', listen]),
  ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ...(check === true ? ['--check'] : []),
]
