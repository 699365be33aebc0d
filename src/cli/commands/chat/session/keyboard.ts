/** Reads messages from the terminal. Handles line editing, history, pastes, Ctrl-C and the editor. */
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { Io } from '../../../io.ts'
import { forTerminal } from '../../../output/terminal-text.ts'
import { createFolding } from './folding.ts'
import type { History } from './history.ts'
import { addLine, type MessageSoFar } from './message-lines.ts'
import { createPasteSplitter, PASTE_OFF, PASTE_ON } from './paste.ts'

const CTRL_C = '\x03'
const CONTINUED = '... '

export type Keyboard = {
  /**
   * Reads the next message, prefilled with `fill`. Returns undefined at Ctrl-D or at the end of input. Throws an error
   * if the program is stopped.
   */
  readMessage(prompt: string, fill: string): Promise<string | undefined>
  /** Until the returned function is called, Ctrl-C calls `stop`, and other keys are kept for the next message. */
  whileAnswering(stop: () => void): () => void
  /** Gives up control of the terminal, so that another program can use it. */
  lend<Result>(use: () => Promise<Result>): Promise<Result>
  close(): void
}

export type KeyboardOptions = {
  io: Io
  history: History
  /** Completions of the line. */
  complete(line: string): Promise<string[]>
  /** The hint that is printed after Ctrl-C on an empty line. */
  howToExit: string
  edit(text: string): Promise<string>
}

type Entered = { kind: 'line' | 'edit' | 'clear' | 'end'; text: string }

/** Takes over the terminal in raw mode. The caller must call `close` at the end. */
export function openKeyboard({ io, history, complete, howToExit, edit }: KeyboardOptions): Keyboard {
  const { stdin, stdout } = io
  const folding = createFolding()
  const splitter = createPasteSplitter()
  const decoder = new StringDecoder('utf8')
  let onStop: (() => void) | undefined

  const setRaw = (on: boolean) => {
    stdin.setRawMode?.(on)
  }
  const keys = Object.assign(new Readable({ read() {} }), { isTTY: true, setRawMode: setRaw })
  const type = (text: string) => {
    // Writes at most one line at a time, because readline discards any text after the first line of a write.
    for (const piece of text.split(/(?<=[\r\n])/)) if (piece !== '') keys.push(piece)
  }
  const onData = (chunk: Buffer | string) => {
    for (const { kind, text } of splitter.push(decoder.write(Buffer.from(chunk)))) {
      if (kind === 'paste') type(folding.fold(text.replace(/\r\n?/g, '\n').replace(/\n+$/, '')))
      else if (onStop === undefined || !text.includes(CTRL_C)) type(text)
      else {
        type(text.replaceAll(CTRL_C, ''))
        onStop()
      }
    }
  }
  const onEnd = () => void keys.push(null)

  const take = () => {
    setRaw(true)
    stdout.write(PASTE_ON)
    stdin.on('data', onData).on('end', onEnd).on('close', onEnd)
    stdin.resume()
  }
  const give = () => {
    stdin.off('data', onData).off('end', onEnd).off('close', onEnd)
    stdin.pause()
    stdout.write(PASTE_OFF)
    setRaw(false)
  }

  const readLine = (prompt: string, fill: string): Promise<Entered> =>
    new Promise((resolve, reject) => {
      const reader = createInterface({
        input: keys,
        output: stdout,
        terminal: true,
        prompt,
        history: history.entries.map((entry) => folding.fold(entry)),
        historySize: history.entries.length + 1,
        completer: (line: string, done: (error: null, result: [string[], string]) => void) => {
          const none = (): string[] => []
          complete(line).then(
            (words) => done(null, [words, line]),
            () => done(null, [none(), line]),
          )
        },
      })
      const leave = () => {
        keys.off('keypress', onKey)
        io.signal.removeEventListener('abort', stopped)
        reader.off('close', onClose).close()
        // Raw mode stays on between messages, so Ctrl-C arrives as a key and not as a signal.
        setRaw(true)
      }
      const finish = (entered: Entered) => {
        leave()
        resolve(entered)
      }
      const stopped = () => {
        leave()
        reject(io.signal.reason)
      }
      const onClose = () => finish({ kind: 'end', text: '' })
      const onKey = (_: unknown, key: { ctrl?: boolean; name?: string }) => {
        if (key.ctrl === true && key.name === 'g') finish({ kind: 'edit', text: reader.line })
      }
      reader
        .once('line', (text) => finish({ kind: 'line', text }))
        .once('close', onClose)
        .once('SIGINT', () => finish({ kind: 'clear', text: reader.line }))
        .on('SIGCONT', () => {
          stdout.write(PASTE_ON)
          reader.prompt(true)
        })
      keys.on('keypress', onKey)
      io.signal.addEventListener('abort', stopped, { once: true })
      if (io.signal.aborted) return stopped()
      reader.prompt()
      if (fill !== '') reader.write(fill)
    })

  const lend = async <Result>(use: () => Promise<Result>): Promise<Result> => {
    give()
    try {
      return await use()
    } finally {
      take()
    }
  }

  const readMessage = async (prompt: string, fill: string): Promise<string | undefined> => {
    let soFar: MessageSoFar | undefined
    let begin = folding.fold(fill)
    for (;;) {
      const { kind, text } = await readLine(soFar === undefined ? prompt : CONTINUED, begin)
      begin = ''
      if (kind === 'end') {
        stdout.write('\n')
        return undefined
      }
      if (kind === 'clear') {
        stdout.write(text === '' && soFar === undefined ? `\n${howToExit}\n` : '^C\n')
        soFar = undefined
      } else if (kind === 'edit') {
        stdout.write('\n')
        const known = soFar === undefined ? text : `${soFar.text}\n${text}`
        soFar = undefined
        begin = folding.fold(await lend(() => edit(folding.unfold(known))))
      } else {
        soFar = addLine(soFar, text)
        if (soFar.isOpen) continue
        const message = folding.unfold(soFar.text)
        soFar = undefined
        if (message.trim() === '') continue
        await history.add(message)
        return message
      }
    }
  }

  take()
  return {
    readMessage: (prompt, fill) => readMessage(forTerminal(prompt), fill),
    whileAnswering(stop) {
      onStop = stop
      return () => {
        onStop = undefined
      }
    },
    lend,
    close: give,
  }
}
