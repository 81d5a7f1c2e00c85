/** `waybill load --gateway-only`: what one gateway process can do (interfaces §9). */
import { measureGateway } from "../../load-tests/gateway-only.ts";
import { answer, type Place, SaidNo } from "./place.ts";

/** Measures and prints one object; says no when anything was lost or doubled, whatever the figures. */
export async function printGatewayFigures(
  place: Place,
  { soak = false, json }: { soak?: boolean; json?: boolean },
): Promise<void> {
  const figures = await measureGateway(place.prepareOwn, { soak });
  answer(json, figures, [
    `durable submits        ${figures.submitsPerSecond}/s at ${figures.cpuMsPerSubmit} ms of CPU each`,
    `sessions alone         ${figures.withoutTakePerSecond}/s`,
    `answers after 50 ms    ${figures.longWayPerSecond}/s with window 16 on one connection`,
    `codec                  ${figures.framesPerSecond} frames/s`,
    `memory, links flapping × ${figures.memoryGrowth}`,
    `lost ${figures.lost}, doubled ${figures.doubled}`,
  ]);
  if (figures.lost + figures.doubled > 0) throw new SaidNo();
}
