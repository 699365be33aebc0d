/**
 * Every error that the gateway can return. `status` is the HTTP status. Structured error bodies contain the code, and
 * flat error bodies contain the label. If a VALIDATION_ERROR names a field, the label in a flat body is `Invalid
 * <field>`. If an error has a `shape`, its body has this shape on every route. `retryable`: the same request, sent again
 * later, may succeed. docs/errors.md lists all errors.
 */
export const ERRORS = {
  VALIDATION_ERROR: { status: 400, label: 'Invalid request' },
  PROMPT_REQUIRED: { status: 400, label: 'prompt is required and must be a string' },
  OUTPUT_REQUIRED: { status: 400, label: 'output is required and must be a string' },
  INVALID_JSON: { status: 400, label: 'Invalid JSON' },
  INVALID_HTTP: { status: 400, label: 'Invalid HTTP request' },
  INVALID_INDEX_NAME: { status: 400, label: 'Invalid index name', shape: 'flat' },
  INVALID_BUNDLE_ID: { status: 400, label: 'Invalid bundle id' },
  INVALID_GROUP: { status: 400, label: 'Invalid or inactive group', shape: 'flat' },
  INDEX_REQUIRED: { status: 400, label: 'Index required' },
  MODEL_REQUIRED: { status: 400, label: 'Model required' },
  PREVIOUS_RESPONSE_NOT_FOUND: { status: 400, label: 'Previous response not found' },
  PROVIDER_REJECTED: { status: 400, label: 'Provider rejected the request' },
  UNAUTHORIZED: { status: 401, label: 'Invalid API key' },
  INSUFFICIENT_PERMISSIONS: { status: 403, label: 'Access denied' },
  PROMPT_BLOCKED: { status: 403, label: 'Prompt blocked' },
  CONTENT_BLOCKED: { status: 403, label: 'Content blocked' },
  SHIELD_NOT_ENABLED: { status: 403, label: 'Prompt Shield not enabled for this key' },
  CLIENT_ADDRESS_REFUSED: { status: 403, label: 'Access denied' },
  REGION_NOT_ALLOWED: { status: 403, label: 'Region not allowed for license', shape: 'flat' },
  INDEX_QUOTA_EXCEEDED: { status: 403, label: 'Index quota exceeded', shape: 'flat' },
  ENTITLEMENT_REFUSED: { status: 403, label: 'Access denied' },
  USAGE_BY_MODEL_REQUIRED: { status: 403, label: 'Usage by Model required' },
  MISSING_FIELDS: { status: 400, label: 'Missing required fields' },
  LICENSE_UNAVAILABLE: { status: 400, label: 'License unavailable', shape: 'flat' },
  NOT_FOUND: { status: 404, label: 'Not found' },
  INDEX_NOT_FOUND: { status: 404, label: 'Index not found' },
  DOCUMENT_NOT_FOUND: { status: 404, label: 'Document not found' },
  USER_NOT_FOUND: { status: 404, label: 'User not found' },
  BUDGET_NOT_FOUND: { status: 404, label: 'Budget not found' },
  GROUP_NOT_FOUND: { status: 404, label: 'Group not found' },
  ROLE_NOT_FOUND: { status: 404, label: 'Role not found' },
  API_KEY_NOT_FOUND: { status: 404, label: 'API key not found' },
  POLICY_NOT_FOUND: { status: 404, label: 'Policy not found' },
  GUARD_RULE_NOT_FOUND: { status: 404, label: 'Guard rule not found' },
  TENANT_NOT_FOUND: { status: 404, label: 'Tenant not found' },
  WEBHOOK_NOT_FOUND: { status: 404, label: 'Webhook not found' },
  INCIDENT_NOT_FOUND: { status: 404, label: 'Incident not found' },
  RECEIPT_NOT_FOUND: { status: 404, label: 'Receipt not found' },
  MODEL_NOT_FOUND: { status: 404, label: 'Model not found' },
  THREAD_NOT_FOUND: { status: 404, label: 'Thread not found' },
  RESPONSE_NOT_FOUND: { status: 404, label: 'Response not found' },
  CHAIN_NOT_FOUND: { status: 404, label: 'Chain not found' },
  LOSS_NOT_FOUND: { status: 404, label: 'Loss not found' },
  LOG_NOT_FOUND: { status: 404, label: 'Log not found' },
  TILE_NOT_FOUND: { status: 404, label: 'Tile not found' },
  PROVIDER_NOT_FOUND: { status: 404, label: 'Provider not found' },
  DELIVERY_NOT_FOUND: { status: 404, label: 'Delivery not found' },
  METHOD_NOT_ALLOWED: { status: 405, label: 'Method not allowed' },
  REQUEST_TIMEOUT: { status: 408, label: 'Request timeout', retryable: true },
  REBUILD_CONFLICT: { status: 409, label: 'Index is changing', retryable: true },
  INDEX_NAME_EXISTS: { status: 409, label: 'Index name already exists' },
  BUDGET_EXISTS: { status: 409, label: 'Budget already exists' },
  GROUP_NAME_EXISTS: { status: 409, label: 'Group name already exists' },
  ROLE_NAME_EXISTS: { status: 409, label: 'Role name already exists' },
  POLICY_NAME_EXISTS: { status: 409, label: 'Policy name already exists' },
  GUARD_RULE_NAME_EXISTS: { status: 409, label: 'Guard rule name already exists' },
  TENANT_NAME_EXISTS: { status: 409, label: 'Tenant name already exists' },
  PROVIDER_NAME_EXISTS: { status: 409, label: 'Provider name already exists' },
  PROVIDER_IN_FILE: { status: 409, label: 'Provider is defined by the configuration' },
  NAME_ALREADY_EXISTS: { status: 409, label: 'Name already exists' },
  EMAIL_ALREADY_EXISTS: { status: 409, label: 'Email already exists' },
  USERNAME_ALREADY_EXISTS: { status: 409, label: 'Username already exists' },
  ROLE_IN_USE: { status: 409, label: 'Role in use' },
  POLICY_IN_USE: { status: 409, label: 'Policy in use' },
  API_KEY_REVOKED: { status: 409, label: 'API key revoked' },
  LAST_ADMINISTRATOR: { status: 409, label: 'Last administrator' },
  NO_ADMINISTRATOR: { status: 409, label: 'No administrator' },
  EVIDENCE_MISMATCH: { status: 409, label: 'Evidence mismatch' },
  NEXT_MASTER_KEY_MISSING: { status: 409, label: 'Next master key missing' },
  MASTER_KEY_OUTDATED: { status: 409, label: 'Master key outdated' },
  RECEIPT_PENDING: { status: 409, label: 'Receipt pending' },
  WEBHOOK_DISABLED: { status: 409, label: 'Webhook disabled' },
  IDEMPOTENCY_RESULT_TOO_LARGE: { status: 409, label: 'Idempotency result too large' },
  PAYLOAD_TOO_LARGE: { status: 413, label: 'Request too large' },
  FILE_TOO_LARGE: { status: 413, label: 'File too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, label: 'Unsupported media type' },
  EXPECTATION_FAILED: { status: 417, label: 'Expectation failed' },
  IDEMPOTENCY_KEY_REUSED: { status: 422, label: 'Idempotency key reused' },
  CONFIG_INVALID: { status: 422, label: 'Configuration invalid' },
  RATE_LIMIT_EXCEEDED: { status: 429, label: 'Rate limit exceeded', retryable: true },
  COMPLETION_LIMIT_EXCEEDED: { status: 429, label: 'Completion limit exceeded' },
  USAGE_BY_MODEL_BUDGET_EXCEEDED: { status: 429, label: 'Usage by Model budget exceeded' },
  HEADERS_TOO_LARGE: { status: 431, label: 'Request headers too large' },
  SCAN_FAILED: { status: 500, label: 'Internal scanning error', retryable: true },
  INTERNAL_ERROR: { status: 500, label: 'Internal server error', retryable: true },
  TRANSFER_CODING_UNSUPPORTED: { status: 501, label: 'Transfer coding not supported' },
  ALL_MODELS_FAILED: { status: 502, label: 'All model attempts failed', retryable: true },
  ALL_MODELS_RATE_LIMITED: { status: 429, label: 'All model attempts failed', retryable: true },
  POLICY_UNAVAILABLE: { status: 503, label: 'Policy unavailable', retryable: true },
  SHIELD_UNAVAILABLE: { status: 503, label: 'Scanning service temporarily unavailable', retryable: true },
  OVERLOADED: { status: 503, label: 'Service unavailable', retryable: true },
} as const satisfies Record<string, { status: number; label: string; shape?: 'flat'; retryable?: true }>

export type ErrorCode = keyof typeof ERRORS

export const isErrorCode = (text: string): text is ErrorCode => Object.hasOwn(ERRORS, text)

/** Whether an error with this code usually passes by itself. */
export const isRetryable = (code: ErrorCode): boolean => 'retryable' in ERRORS[code]

/**
 * Returns `error.code` of the error bodies under `/v1`. OpenAI's clients know some of these codes. All others are our
 * code in lower case.
 * @param reason why the provider rejected the request, if it did
 */
export const compatCodeOf = (code: ErrorCode, reason?: unknown): string =>
  (code === 'PROVIDER_REJECTED' ? REJECTED_CODES.get(reason) : KNOWN_CODES.get(code)) ?? code.toLowerCase()

const KNOWN_CODES: ReadonlyMap<ErrorCode, string> = new Map([
  ['UNAUTHORIZED', 'invalid_api_key'],
  // OpenAI's clients do not retry this code.
  ['COMPLETION_LIMIT_EXCEEDED', 'insufficient_quota'],
  ['USAGE_BY_MODEL_BUDGET_EXCEEDED', 'insufficient_quota'],
  ['ALL_MODELS_RATE_LIMITED', 'all_models_failed'],
])
const REJECTED_CODES: ReadonlyMap<unknown, string> = new Map([
  ['context_length', 'context_length_exceeded'],
  ['content_filter', 'content_filter'],
])

export type GatewayErrorOptions = ErrorOptions & {
  /**
   * The gateway sends this member as `details` in structured bodies. `{field, value}` names the invalid field in both
   * shapes.
   */
  details?: { field: string; value?: unknown }
  /** Additional members of a flat body, such as `attempts` or `reset_time`. */
  extra?: Record<string, unknown>
  /** The gateway sends this value as `Retry-After`, and as `retryAfter` in structured bodies. Whole seconds. */
  retryAfterSeconds?: number | undefined
  /** The methods that the path supports, sent in the `Allow` header. */
  allow?: string
  /** Set to false if a retry is pointless in this case, although the table says otherwise. */
  retryable?: false | undefined
}

/** An error that is reported to the caller. Any other exception is a bug and becomes a 500 without details. */
export class GatewayError extends Error {
  override name = 'GatewayError'
  readonly code: ErrorCode
  readonly details: { field: string; value?: unknown } | undefined
  readonly extra: Record<string, unknown> | undefined
  readonly retryAfterSeconds: number | undefined
  readonly allow: string | undefined
  /** Whether the same request, sent again later, may succeed. */
  readonly retryable: boolean

  /**
   * @param publicMessage states the problem, its location and the remedy; `options.cause` is logged and never shown to
   * the caller
   */
  constructor(code: ErrorCode, publicMessage: string, options: GatewayErrorOptions = {}) {
    super(publicMessage, options)
    this.code = code
    this.details = options.details
    this.extra = options.extra
    this.retryAfterSeconds = options.retryAfterSeconds
    this.allow = options.allow
    this.retryable = options.retryable ?? isRetryable(code)
  }
}

/**
 * Returns the 400 error for an invalid field: `Invalid <field>` in flat bodies, `VALIDATION_ERROR` with `details` in
 * structured bodies.
 */
export function invalidField(field: string, publicMessage: string, value?: unknown): GatewayError {
  return new GatewayError('VALIDATION_ERROR', publicMessage, { details: { field, value } })
}
