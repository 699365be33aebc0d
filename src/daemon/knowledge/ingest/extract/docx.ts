import mammoth from 'mammoth'
import { repack } from './container.ts'
import { htmlToMarkdown } from './html.ts'

/** Maps Word's title styles to headings. The library itself maps all other heading styles. */
const STYLES = ["p[style-name='Title'] => h1:fresh", "p[style-name='Subtitle'] => h2:fresh"]

/** Returns the text of a Word document as Markdown. @throws UnreadableDocument; Error for a damaged document */
export async function docxText(bytes: Buffer): Promise<string> {
  const { value } = await mammoth.convertToHtml(
    { buffer: await repack(bytes) },
    {
      styleMap: STYLES,
      includeEmbeddedStyleMap: false,
      // The repacked container has no pictures, so the `src` of each picture is empty.
      convertImage: mammoth.images.imgElement(async () => ({ src: '' })),
    },
  )
  return htmlToMarkdown(value).text
}
