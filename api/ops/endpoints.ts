/** What the document says of the operators' addresses. */
import type { ProblemCode } from "../../domain/errors.ts";
import { READING_A_BODY, READING_A_QUERY, type Endpoint } from "../endpoint.ts";
import {
  alerts,
  anomalies,
  assignedInbound,
  auditTrail,
  books,
  changedChannel,
  changedPublication,
  channels,
  clearedAlert,
  inboundAnywhere,
  messagesAnywhere,
  overview,
  publication,
  reconciliation,
  resolved,
  reviews,
  switched,
  toppedUp,
  unmatched,
} from "./answers.ts";
import { alertQuery, auditQuery, reviewQuery } from "./attention.ts";
import {
  assignmentBody,
  channelBody,
  noteBody,
  publicationBody,
  resolutionBody,
  switchBody,
  topUpBody,
} from "./bodies.ts";
import { eventQuery, messageAnywhereQuery } from "./facts.ts";
import { inboundAnywhereQuery } from "./inbound.ts";

const CHANGING: ProblemCode[] = [...READING_A_BODY, "not_found"];

const endpoints: Omit<Endpoint, "who">[] = [
  {
    method: "get",
    path: "/ops/v1/overview",
    summary: "How the whole of it stands: depths, ages, rates, last errors",
    answers: { 200: overview },
  },
  {
    method: "get",
    path: "/ops/v1/channels",
    summary: "Channels with their connections, rates and windows in use",
    answers: { 200: channels },
  },
  {
    method: "patch",
    path: "/ops/v1/channels/{id}",
    summary: "Enable or disable a channel, or set its rate; effective with the next batch",
    body: channelBody,
    answers: { 200: changedChannel },
    problems: CHANGING,
  },
  {
    method: "patch",
    path: "/ops/v1/applications/{id}",
    summary: "Enable or disable an application",
    body: switchBody,
    answers: { 200: switched },
    problems: CHANGING,
  },
  {
    method: "patch",
    path: "/ops/v1/filings/{id}",
    summary: "Enable or disable a filing",
    body: switchBody,
    answers: { 200: switched },
    problems: CHANGING,
  },
  {
    method: "post",
    path: "/ops/v1/accounts/{id}/top-up",
    summary: "Money in, once per key",
    body: topUpBody,
    answers: { 200: toppedUp },
    problems: [...CHANGING, "idempotency_key_reused"],
  },
  {
    method: "get",
    path: "/ops/v1/books",
    summary: "Every account beside the sums of its transfers",
    answers: { 200: books },
  },
  {
    method: "get",
    path: "/ops/v1/publication",
    summary: "Whether commands are published",
    answers: { 200: publication },
  },
  {
    method: "put",
    path: "/ops/v1/publication",
    summary:
      "Publish, pause, or publish to a shadow stream that no gateway reads: for all, or for one application",
    body: publicationBody,
    answers: { 200: changedPublication },
    problems: CHANGING,
  },
  {
    method: "get",
    path: "/ops/v1/reconcile",
    summary: "What outbox, streams, pending entries and takes do not agree about; repairs nothing",
    answers: { 200: reconciliation },
  },
  {
    method: "get",
    path: "/ops/v1/alerts",
    summary: "Stored alerts, newest first",
    query: alertQuery,
    answers: { 200: alerts },
    problems: READING_A_QUERY,
  },
  {
    method: "post",
    path: "/ops/v1/alerts/{id}/clear",
    summary: "Clear an alert",
    body: noteBody,
    answers: { 200: clearedAlert },
    problems: CHANGING,
  },
  {
    method: "get",
    path: "/ops/v1/reviews",
    summary: "Attempts on which a person must decide, the longest waiting first",
    query: reviewQuery,
    answers: { 200: reviews },
    problems: READING_A_QUERY,
  },
  {
    method: "post",
    path: "/ops/v1/reviews/{id}/resolve",
    summary: "Decide about an attempt in review",
    body: resolutionBody,
    answers: { 200: resolved },
    problems: CHANGING,
  },
  {
    method: "get",
    path: "/ops/v1/anomalies",
    summary: "Supplier events that contradict a decision or each other, newest first",
    query: eventQuery,
    answers: { 200: anomalies },
    problems: READING_A_QUERY,
  },
  {
    method: "get",
    path: "/ops/v1/unmatched",
    summary: "Receipts that belong to nothing we know, newest first",
    query: eventQuery,
    answers: { 200: unmatched },
    problems: READING_A_QUERY,
  },
  {
    method: "get",
    path: "/ops/v1/inbound",
    summary: "Texts from recipients of which nobody knows whose they are, or all of them, newest first",
    query: inboundAnywhereQuery,
    answers: { 200: inboundAnywhere },
    problems: READING_A_QUERY,
  },
  {
    method: "post",
    path: "/ops/v1/inbound/{id}/assign",
    summary: "Say whose a text is; its wish and its webhook follow",
    body: assignmentBody,
    answers: { 200: assignedInbound },
    problems: CHANGING,
  },
  {
    method: "get",
    path: "/ops/v1/messages",
    summary: "Messages of every application, newest first",
    query: messageAnywhereQuery,
    answers: { 200: messagesAnywhere },
    problems: READING_A_QUERY,
  },
  {
    method: "get",
    path: "/ops/v1/audit",
    summary: "Who changed what, when, why, and what came of it, newest first",
    query: auditQuery,
    answers: { 200: auditTrail },
    problems: READING_A_QUERY,
  },
];

export const OPS_ENDPOINTS: Endpoint[] = endpoints.map((each) => ({ ...each, who: "person" }));
