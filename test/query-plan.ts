import { CompiledQuery, type KyselyPlugin, type RootOperationNode } from 'kysely'
import type { Db } from '../src/daemon/platform/db/db.ts'
import { engineOf } from '../src/daemon/platform/db/engine.ts'

/** Runs `run` and returns the execution plan of each of its queries, in the engine's own text. */
export async function queryPlans(db: Db, run: (db: Db) => Promise<unknown>): Promise<string[]> {
  const nodes = new WeakMap<object, RootOperationNode>()
  const executed: CompiledQuery[] = []
  const recorder: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      nodes.set(queryId, node)
      return node
    },
    // Subqueries pass only `transformQuery`. Executed queries also have a result.
    async transformResult({ result, queryId }) {
      const node = nodes.get(queryId)
      if (node) executed.push(db.getExecutor().compileQuery(node, queryId))
      return result
    },
  }
  await run(db.withPlugin(recorder))
  const explain = engineOf(db).name === 'sqlite' ? 'explain query plan' : 'explain'
  const plans: string[] = []
  for (const { sql, parameters } of executed) {
    const { rows } = await db.executeQuery<Record<string, unknown>>(
      CompiledQuery.raw(`${explain} ${sql}`, [...parameters]),
    )
    plans.push(rows.map((row) => String(row.detail ?? row['QUERY PLAN'])).join('\n'))
  }
  return plans
}
