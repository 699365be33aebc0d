import mammoth from 'mammoth'
import { repack } from './container.ts'
import { htmlToMarkdown } from './html.ts'

/** Titles become headings; everything else that Word calls a heading is one already. */
const STYLES = ["p[style-name='Title'] => h1:fresh", "p[style-name='Subtitle'] => h2:fresh"]

/** The text of a Word document as Markdown. @throws UnreadableDocument; Error for a damaged one */
export async function docxText(bytes: Buffer): Promise<string> {
  const { value } = await mammoth.convertToHtml(
    { buffer: await repack(bytes) },
    {
      styleMap: STYLES,
      includeEmbeddedStyleMap: false,
      // Pictures are not in the container that it reads.
      convertImage: mammoth.images.imgElement(async () => ({ src: '' })),
    },
  )
  return htmlToMarkdown(value).text
}
