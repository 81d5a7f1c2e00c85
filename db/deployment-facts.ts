/** Small facts that one deployment remembers about itself. */
import { type Session, statement } from "./client.ts";

export type DeploymentFact = "temporal_namespace_id";

export async function readDeploymentFact(
  session: Session,
  name: DeploymentFact,
): Promise<string | undefined> {
  const [row] = await session.run(READ, [name]);
  return row?.value;
}

export async function writeDeploymentFact(
  session: Session,
  name: DeploymentFact,
  value: string,
): Promise<void> {
  await session.run(WRITE, [name, value]);
}

const READ = statement<{ value: string }>(
  "deployment_facts.read",
  `SELECT value FROM deployment_facts WHERE name = $1`,
);

const WRITE = statement<Record<string, never>>(
  "deployment_facts.write",
  `INSERT INTO deployment_facts (name, value) VALUES ($1, $2)
   ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
);
