import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { FileSum } from './manifest.ts'

const BUFFERED_CHARS = 262_144

/** A new file with mode 0600. Its hash is computed while the file is written. */
export class HashedFile {
  readonly #name: string
  readonly #file: FileHandle
  readonly #hash = createHash('sha256')
  #waiting = ''
  #bytes = 0

  private constructor(name: string, file: FileHandle) {
    this.#name = name
    this.#file = file
  }

  /** Rejects if the file already exists. */
  static async create(folder: string, name: string): Promise<HashedFile> {
    return new HashedFile(name, await open(join(folder, name), 'wx', 0o600))
  }

  async add(text: string): Promise<void> {
    this.#waiting += text
    if (this.#waiting.length >= BUFFERED_CHARS) await this.#flush()
  }

  /** Flushes the file to disk and returns its hash and size. */
  async end(): Promise<FileSum> {
    await this.#flush()
    await this.#file.sync()
    await this.#file.close()
    return { name: this.#name, sha256: this.#hash.digest('hex'), bytes: this.#bytes }
  }

  /** Closes the file. Has no effect after `end` or after an earlier call. */
  close(): Promise<void> {
    return this.#file.close()
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.from(this.#waiting)
    this.#waiting = ''
    this.#hash.update(bytes)
    this.#bytes += bytes.length
    await this.#file.writeFile(bytes)
  }
}
