#!/usr/bin/env node
import('../dist/cli/main.js').then(async ({ main }) => {
  process.exitCode = await main(process)
})
