import { BackupError } from '../platform/db/backup/backup-error.ts'
import { type Finding, problemsIn } from './check.ts'

/** @throws BackupError with the first problem, unless the operator accepts problems of evidence */
export function requireSound(findings: readonly Finding[], acceptProblems: boolean): void {
  const [first] = problemsIn(findings).filter(({ check }) => !(acceptProblems && check === 'chain'))
  if (first === undefined) return
  const hint =
    first.check === 'chain'
      ? ' The log was already invalid when the backup was made, or the backup was changed. To restore it nevertheless, pass --accept-problems.'
      : ''
  throw new BackupError(
    `The backup was not restored, because its store is invalid: ${first.of}: ${first.problem}.${hint}`,
  )
}
