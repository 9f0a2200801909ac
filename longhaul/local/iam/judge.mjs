// Judges requests, one line of JSON each, by AWS's rules for policies; see judge.py.
import { createInterface } from 'node:readline'
import {
  createValidatedPolicy,
  validateIdentityPolicy,
  validateResourcePolicy,
} from '@cloud-copilot/iam-policy'
import { runSimulation } from '@cloud-copilot/iam-simulate'

const documents = new Map()

function validated(text, validate) {
  if (!documents.has(text)) {
    documents.set(text, createValidatedPolicy(JSON.parse(text), validate))
  }
  return documents.get(text)
}

const named = (texts) =>
  texts.map((text, index) => ({
    name: `${index}`,
    policy: validated(text, validateIdentityPolicy),
  }))

async function judge(asked) {
  const { principal, action, resource, account, context } = asked
  const answer = await runSimulation(
    {
      request: {
        principal,
        action,
        resource: { resource, accountId: account },
        contextVariables: context,
      },
      identityPolicies: named(asked.identity),
      permissionBoundaryPolicies: asked.boundary ? named([asked.boundary]) : undefined,
      resourcePolicy: asked.resource_policy
        ? validated(asked.resource_policy, validateResourcePolicy)
        : undefined,
      serviceControlPolicies: [],
      resourceControlPolicies: [],
    },
    {},
  )
  if (answer.resultType === 'error') return { error: JSON.stringify(answer.errors) }
  const { analysis } = answer.result ?? answer.results[0]
  const kinds = [
    ['identity', analysis.identityAnalysis],
    ['resource', analysis.resourceAnalysis],
    ['boundary', analysis.permissionBoundaryAnalysis],
  ]
  return {
    result: answer.overallResult,
    denied_by: kinds.filter(([, each]) => each?.denyStatements?.length).map(([kind]) => kind),
    blocked_by: analysis.blockedBy ?? [],
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let said
  try {
    said = await judge(JSON.parse(line))
  } catch (error) {
    said = { error: `${error.stack ?? error}` }
  }
  process.stdout.write(`${JSON.stringify(said)}\n`)
}
