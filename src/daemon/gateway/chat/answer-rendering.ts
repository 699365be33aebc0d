// Renders an answer of the classic chat route, as one JSON body or as frames.
import { hash } from 'node:crypto'
import type { ChatFrame } from '../../../shared/wire/chat.ts'
import { type Reply, reply } from '../../platform/http/route.ts'
import { SSE_DONE, sseFrame } from '../../platform/http/sse.ts'
import { createPacer, runInSlices } from '../../platform/pacing.ts'
import { toJsonString } from '../../platform/text/json-string.ts'
import { joining, writingJson } from '../../platform/text/json-writer.ts'
import type { ClientStream } from '../governed/client-stream.ts'
import type { Answer, Envelope, Finish, Rendered } from './answer-contract.ts'
import { type StreamWording, streamInWords } from './streamed-answer.ts'

/** The body of a whole answer. `send` replies with the body that was rendered before. */
export class JsonBody {
  #body = ''

  render(body: string): Rendered {
    return this.#rendered(body, hash('sha256', body, 'hex'))
  }

  /** Renders a large body in steps. `parts` are its text, in order. */
  async renderParts(parts: Iterable<string>): Promise<Rendered> {
    const { text, sha256 } = await runInSlices(joining(parts), createPacer())
    return this.#rendered(text, sha256)
  }

  send(): Reply {
    return reply(200, this.#body)
  }

  #rendered(body: string, sha256: string): Rendered {
    this.#body = body
    return { contentType: 'application/json', body, sha256 }
  }
}

/** The first JSON members of an answer, streamed or not. The caller appends more members and the closing brace. */
const headOf = ({ id, created, model }: Envelope): string =>
  `{"success":true,"id":${toJsonString(id)},"object":"chat.completion","created":${created},"model":${toJsonString(model)}`

/**
 * Writes the JSON member by member. JSON.stringify would take five times as long and add 3 % to a request's time.
 * Hashes, bundle ids and policy sources are generated here and need no JSON escaping.
 */
function metadataJson({ metadata, changed, dropped }: Envelope): string {
  const {
    failover,
    billing_fallback: fallback,
    smltp,
    sources,
    smltp_policy_hash: policyHash,
    smltp_policy_baseline: baseline,
    prompt_shield_policy: shield,
    withheld,
    skipped_models: skipped,
    cache,
  } = metadata
  const receipt = smltp.receipt_url === undefined ? '' : `,"receipt_url":${toJsonString(smltp.receipt_url)}`
  return (
    `{"conversation_id":${toJsonString(metadata.conversation_id)},"index_used":${toJsonString(metadata.index_used)},` +
    `"smltp_policy_used":${toJsonString(metadata.smltp_policy_used)},` +
    `"smltp_policy_source":"${metadata.smltp_policy_source}","smltp_policy_hash":${policyHash === null ? 'null' : `"${policyHash}"`},` +
    `${baseline === undefined ? '' : `"smltp_policy_baseline":${toJsonString(baseline)},`}` +
    `"prompt_shield_policy":${shield === null ? 'null' : JSON.stringify(shield)},` +
    `${withheld ? `"withheld":${JSON.stringify(withheld)},` : ''}` +
    `"served_model":${toJsonString(metadata.served_model)},"requested_model":${toJsonString(metadata.requested_model)},` +
    `${failover ? `"failover":${JSON.stringify(failover)},` : ''}` +
    `${fallback ? `"billing_fallback":${JSON.stringify(fallback)},` : ''}` +
    `"smltp":{"bundle_id":"${smltp.bundle_id}"${receipt}},"rag_enabled":${metadata.rag_enabled},` +
    `"documents_retrieved":${metadata.documents_retrieved},"sources":${sources.length === 0 ? '[]' : JSON.stringify(sources)}` +
    `${skipped ? `,"skipped_models":${JSON.stringify(skipped)}` : ''}` +
    `${changed.length === 0 ? '' : `,"changed":${JSON.stringify(changed)}`}` +
    `${dropped.length === 0 ? '' : `,"dropped":${JSON.stringify(dropped)}`}` +
    `${cache ? `,"cache":${JSON.stringify(cache)}` : ''}}`
  )
}

function* aroundText(before: string, text: string, after: string): Generator<string, void> {
  yield before
  yield* writingJson(text)
  yield after
}

/** Renders an answer with `stream: false`: one JSON body (ChatResponse) at the end. */
export function wholeAnswer(envelope: Envelope): Answer {
  let content = ''
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) if (part.type === 'text') content += part.text
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, { inputTokens, outputTokens }, isLarge) {
      const usage =
        `{"prompt_tokens":${inputTokens},"completion_tokens":${outputTokens},"total_tokens":${inputTokens + outputTokens},` +
        `"input_tokens":${inputTokens},"output_tokens":${outputTokens}}`
      const before = `${headOf(envelope)},"choices":[{"index":0,"message":{"role":"assistant","content":`
      const after = `},"finish_reason":"${finish}"}],"usage":${usage},"metadata":${metadataJson(envelope)}}`
      return isLarge
        ? json.renderParts(aroundText(before, content, after))
        : json.render(before + toJsonString(content) + after)
    },
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
    send: () => json.send(),
  }
}

/** Renders an answer with `stream: true`: metadata, chunks, usage, `[DONE]`. */
export const streamedAnswer = (envelope: Envelope, stream: ClientStream): Answer =>
  streamInWords(classicWording(envelope), stream)

function classicWording(envelope: Envelope): StreamWording {
  const { id, model } = envelope
  // `head` is cleared after it is sent, because some streams would otherwise keep it in memory for minutes.
  let head = `data: {"type":"metadata","data":${headOf(envelope)},"metadata":${metadataJson(envelope)}}}\n\n`
  // Only the delta of a chunk varies, so the constant part is rendered once.
  const beforeDelta =
    `data: {"type":"chunk","data":{"id":${JSON.stringify(id)},"object":"chat.completion.chunk",` +
    `"model":${JSON.stringify(model)},"choices":[{"index":0,"delta":`
  const textChunk = (role: string, text: string) =>
    `${beforeDelta}{${role}"content":${toJsonString(text)}},"finish_reason":null}]}}\n\n`
  const lastChunk = (finish: Finish) => `${beforeDelta}{},"finish_reason":"${finish}"}]}}\n\n`
  let begun = false

  return {
    say(parts) {
      let frames = ''
      for (const part of parts) {
        if (part.type !== 'text') continue
        if (begun) frames += textChunk('', part.text)
        else frames = head + textChunk('"role":"assistant",', part.text)
        begun = true
        head = ''
      }
      return frames
    },
    end(finish, { inputTokens, outputTokens }) {
      const usage = sseFrame({
        type: 'usage',
        data: {
          usage: {
            prompt_tokens: inputTokens,
            completion_tokens: outputTokens,
            total_tokens: inputTokens + outputTokens,
          },
        },
      } satisfies ChatFrame)
      return head + lastChunk(finish) + usage + SSE_DONE
    },
    fail({ error, message, reason, verdict }) {
      const data = { error, message, reason, request_id: id, ...verdict }
      const frame = sseFrame({ type: 'error', data } satisfies ChatFrame)
      return head + frame
    },
  }
}
