#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8'

// V8 would allocate what outlives one young collection straight in the old generation. Nearly everything of a request
// does, and dies a moment later: without the guess, a loaded daemon spends far less time collecting garbage.
setFlagsFromString('--no-allocation-site-pretenuring')

const { runDaemon } = await import('../dist/aigwd/main.js')
await runDaemon()
