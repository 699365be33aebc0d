import { RUNTIME } from './test/run-lists.ts'
import { isolated } from './vitest.config.ts'

// The tests that CI repeats on the second Node version. Run: npx vitest run --config vitest.runtime.config.ts
export default isolated(Object.keys(RUNTIME))
