/**
 * Every problem that Waybill answers with, in one place: its stable code, HTTP status, whether the
 * same request may succeed later, and a title. A code is a contract; its wording is not.
 */
interface ProblemKind {
  status: number;
  /** The same request, sent again later, can succeed. */
  retryable: boolean;
  title: string;
}

export const PROBLEMS = {
  malformed_request: { status: 400, retryable: false, title: "The request cannot be read" },
  malformed_json: { status: 400, retryable: false, title: "The body is not one JSON object in UTF-8" },
  invalid_field: { status: 400, retryable: false, title: "A field is missing or not allowed as it is" },
  unknown_field: { status: 400, retryable: false, title: "A field does not exist" },
  invalid_idempotency_key: {
    status: 400,
    retryable: false,
    title: "Idempotency-Key must be 1 to 255 printable ASCII characters",
  },
  invalid_cursor: { status: 400, retryable: false, title: "The cursor is not one that was handed out here" },
  text_too_long: {
    status: 400,
    retryable: false,
    title: "The text needs more segments than one SMS can have",
  },
  template_unknown: { status: 400, retryable: false, title: "The application has no such approved template" },
  template_params_invalid: {
    status: 400,
    retryable: false,
    title: "The parameters are not those that the template has",
  },
  webhook_address_refused: { status: 400, retryable: false, title: "Webhooks may not go to this address" },
  batch_too_large: { status: 400, retryable: false, title: "A batch holds at most 1,000 messages" },
  duplicate_recipient: {
    status: 400,
    retryable: false,
    title: "The number stands in this request already, and allowDuplicates is not set",
  },
  invalid_api_key: { status: 401, retryable: false, title: "The API key is missing, unknown or disabled" },
  invalid_token: {
    status: 401,
    retryable: false,
    title: "The operators' token is missing, unknown or disabled",
  },
  forbidden: { status: 403, retryable: false, title: "A viewer's token may look and change nothing" },
  not_found: { status: 404, retryable: false, title: "There is nothing at this address" },
  method_not_allowed: { status: 405, retryable: false, title: "This address does not answer that method" },
  already_sent: {
    status: 409,
    retryable: false,
    title: "The message ended, or a part of it may have reached a supplier",
  },
  rotation_under_way: {
    status: 409,
    retryable: true,
    title: "Two secrets sign already; a third has to wait, or to be forced",
  },
  body_too_large: { status: 413, retryable: false, title: "The body is larger than 1 MB" },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    title: "The body must be application/json in UTF-8",
  },
  idempotency_key_reused: {
    status: 422,
    retryable: false,
    title: "This key belongs to a request with another body",
  },
  rate_limited: {
    status: 429,
    retryable: true,
    title: "The application submits faster than its rate allows",
  },
  internal_error: { status: 500, retryable: true, title: "Something went wrong on our side" },
  temporarily_unavailable: { status: 503, retryable: true, title: "Waybill cannot answer right now" },
} as const satisfies Record<string, ProblemKind>;

export type ProblemCode = keyof typeof PROBLEMS;

/** What is wrong with one field; `path` leads to it, as in `messages[3].to`. */
export interface FieldError {
  path: string;
  message: string;
}

/** A refusal as a value: a code of the registry, and the fields at fault where there are any. */
export interface Refusal {
  code: ProblemCode;
  errors: FieldError[];
}
