/** What a person may change, as strict schemas that the document shows too. */
import { z } from "zod";
import { RESOLUTION_ACTIONS } from "../../domain/steps.ts";
import { storable } from "../../domain/submission.ts";

const note = storable.max(1_000).optional().describe("Why; kept in the audit trail");

export const noteBody = z.strictObject({ note });

export const channelBody = z
  .strictObject({
    active: z.boolean().optional(),
    ratePerSecond: z
      .int()
      .min(1)
      .max(10_000)
      .optional()
      .describe("Parts a second, over all channels of the supplier account"),
    note,
  })
  .refine(
    ({ active, ratePerSecond }) => active !== undefined || ratePerSecond !== undefined,
    "must name something to change: active or ratePerSecond",
  );

export const switchBody = z.strictObject({ active: z.boolean(), note });

export const topUpBody = z.strictObject({
  key: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/, "must be 1 to 128 printable ASCII characters without a space")
    .describe("Money moves once under a key, whatever account it names"),
  units: z.int().min(1).describe("1/10000 of the account's currency unit"),
  note,
});

export const publicationBody = z
  .strictObject({
    mode: z
      .enum(["live", "paused", "shadow", "inherit"])
      .describe("`inherit`, with an application: the mode of all again"),
    application: z.string().min(1).max(64).optional().describe("Of this application alone"),
    note,
  })
  .refine(({ mode, application }) => mode !== "inherit" || application !== undefined, {
    path: ["application"],
    message: "must name the application that inherits the mode of all",
  });

export const assignmentBody = z.strictObject({
  applicationId: storable.min(1).max(64).describe("Whose the text is"),
  note,
});

export const resolutionBody = z.strictObject({ action: z.enum(RESOLUTION_ACTIONS), note });
