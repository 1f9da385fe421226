// Tells the test what became of each check.

const post = (line) => fetch('/report', { method: 'POST', body: JSON.stringify(line) });

/** Runs checks in their order, and says so at the end. */
export async function run(checks) {
  try {
    for (const [name, check] of checks) {
      const problem = await check().then(
        () => undefined,
        (error) => String(error?.stack ?? error),
      );
      await post({ name, problem });
    }
  } finally {
    await post({ name: 'over' });
  }
}

export function equal(found, expected, what) {
  const [left, right] = [found, expected].map((value) => JSON.stringify(value));
  if (left !== right) throw new Error(`${what} is ${left} and not ${right}`);
}

export function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
