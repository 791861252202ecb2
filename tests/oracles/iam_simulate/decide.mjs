// Reads one simulation of @cloud-copilot/iam-simulate per line, and writes each decision as a line.
import { createInterface } from 'node:readline'
import { runSimulation } from '@cloud-copilot/iam-simulate'

for await (const line of createInterface({ input: process.stdin })) {
  const found = await runSimulation(JSON.parse(line), {})
  const decision = found.overallResult ?? JSON.stringify(found.errors)
  process.stdout.write(`${JSON.stringify({ decision, dropped: found.result?.ignoredContextKeys ?? [] })}\n`)
}
