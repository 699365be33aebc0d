#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8'

// V8 would allocate what outlives one young collection straight in the old generation. Nearly everything of a request
// does, and dies a moment later: without the guess, a loaded daemon spends far less time collecting garbage.
setFlagsFromString('--no-allocation-site-pretenuring')
// V8 would let the heap double before it looks for garbage. With thousands of streams open that is a quarter of the memory
// that each of them takes; looking sooner costs one percent of a chunk, and less of a request.
setFlagsFromString('--heap-growing-percent=15')

const { runDaemon } = await import('../dist/aigwd/main.js')
await runDaemon()
