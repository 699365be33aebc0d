#!/usr/bin/env node
// CommonJS, because Node loads ES modules on libuv's threads: they would exist before this line sets their number.
// Name lookups, SQLite and file access share these threads. With 4, a few slow lookups stop the store.
process.env.UV_THREADPOOL_SIZE ||= '16'

const { setFlagsFromString } = require('node:v8')

// V8 would allocate objects that survive one young collection directly in the old generation. Most objects of a request
// survive one and die shortly after. Without this heuristic, a loaded daemon spends far less time collecting garbage.
setFlagsFromString('--no-allocation-site-pretenuring')
// By default V8 lets the heap double before it collects garbage, which costs 6 KiB per open stream. A lower limit than 40
// costs more CPU than it is worth: with 15, a request takes up to a fifth more (docs/decisions/0008-performance.md).
setFlagsFromString('--heap-growing-percent=40')

import('../dist/aigwd/main.js').then(({ runDaemon }) => runDaemon())
