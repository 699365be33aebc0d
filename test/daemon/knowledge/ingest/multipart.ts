export type TestPart = { field?: string; fileName?: string; type?: string; content: string | Buffer }

const BOUNDARY = 'test-boundary-7d1f'
export const MULTIPART = { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` }

/** A multipart body with these parts; `cut` omits the closing line. */
export function multipart(parts: readonly TestPart[], { cut = false } = {}): Buffer {
  const blocks = parts.flatMap(({ field = 'files', fileName, type, content }) => [
    Buffer.from(
      `--${BOUNDARY}\r\ncontent-disposition: form-data; name="${field}"${fileName === undefined ? '' : `; filename="${fileName}"`}\r\n` +
        `${type === undefined ? '' : `content-type: ${type}\r\n`}\r\n`,
    ),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...blocks, Buffer.from(cut ? '' : `--${BOUNDARY}--\r\n`)])
}
