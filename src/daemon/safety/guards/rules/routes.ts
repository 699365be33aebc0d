import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../../shared/errors.ts'
import { toPolicyId } from '../../../../shared/policy-id.ts'
import { isoTime } from '../../../../shared/time.ts'
import { DoneResponse, StructuredError } from '../../../../shared/wire/common.ts'
import {
  CreateGuardRuleRequest,
  GUARD_RULE_READ_ONLY,
  type GuardRule,
  type GuardRuleChanges,
  GuardRuleDocument,
  GuardRuleResponse,
  ListGuardRulesResponse,
  ShowGuardRuleResponse,
  SimulateGuardRulesRequest,
  SimulateGuardRulesResponse,
  UpdateGuardRuleRequest,
} from '../../../../shared/wire/guard-rules.ts'
import type { Db } from '../../../platform/db/db.ts'
import { requireUnlike } from '../../../platform/db/distinct-name.ts'
import type { FreshCache } from '../../../platform/db/fresh-cache.ts'
import { changesIn } from '../../../platform/http/read-only.ts'
import { type Route, reply, route } from '../../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../../records/audit/change.ts'
import { PatternRefused } from '../dlp/regex-search.ts'
import { createRuleDetector } from './compile.ts'
import { simulate } from './simulate.ts'
import { deleteGuardRule, findGuardRule, findGuardRules, insertGuardRule, updateGuardRule } from './store.ts'

const NOT_FOUND = { description: 'No guard rule of this tenant has this id', schema: StructuredError }
const BASE = '/api/admin/guard-rules'

/** Returns the management routes of rules for secrets and personal data. */
export function guardRuleRoutes(deps: ChangeDeps & { guardRules: Pick<FreshCache<object>, 'forget'> }): Route[] {
  const { db, clock, guardRules } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'smltp-security',
    errors: 'structured',
    tags: ['Guard rules'],
  }
  return [
    route({
      ...common,
      method: 'GET',
      path: BASE,
      summary: 'List guard rules',
      responses: { 200: { description: 'All rules, by name', schema: ListGuardRulesResponse } },
      async handle({ caller }) {
        const rules = await findGuardRules(db, caller.tenantId)
        return reply(200, { success: true, rules } satisfies z.input<typeof ListGuardRulesResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: BASE,
      summary: 'Create a guard rule; it applies here at once, and on every daemon within two seconds',
      body: CreateGuardRuleRequest,
      responses: {
        201: { description: 'The rule', schema: GuardRuleResponse },
        409: { description: 'A guard rule with this name exists', schema: StructuredError },
      },
      async handle(context) {
        const { caller, body } = context
        const { name, ...document } = body
        requireUsable(document)
        const id = toPolicyId(name)
        const now = isoTime(clock.now())
        const rule = await change(deps, context, async ({ tx, record }) => {
          requireUnlike('name', name, await findGuardRules(tx, caller.tenantId))
          await insertGuardRule(tx, {
            tenant_id: caller.tenantId,
            id,
            name,
            document: JSON.stringify(document),
            created_at: now,
            updated_at: now,
          })
          await record({ ...activityOn({ id, name }, 'create'), metadata: toFacts(document) })
          return getGuardRule(tx, caller.tenantId, id)
        })
        guardRules.forget(caller.tenantId)
        const message = 'Guard rule created'
        return reply(201, { success: true, message, rule } satisfies z.input<typeof GuardRuleResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: `${BASE}/simulate`,
      summary: 'Show the findings of one rule, or of all rules of the tenant, in sample texts; nothing is stored',
      body: SimulateGuardRulesRequest,
      bodyLimit: SIMULATE_BODY_BYTES,
      responses: { 200: { description: 'The findings with their offsets', schema: SimulateGuardRulesResponse } },
      async handle({ caller, body }) {
        const { rule, samples } = body
        if (rule) requireUsable(rule)
        const rules = rule ? [{ id: null, ...rule }] : await findGuardRules(db, caller.tenantId)
        const results = await simulate(rules, samples)
        return reply(200, { success: true, results } satisfies z.input<typeof SimulateGuardRulesResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: `${BASE}/{ruleId}`,
      summary: 'Show a guard rule',
      responses: { 200: { description: 'The rule', schema: ShowGuardRuleResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const rule = await getGuardRule(db, caller.tenantId, params.ruleId)
        return reply(200, { success: true, rule } satisfies z.input<typeof ShowGuardRuleResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: `${BASE}/{ruleId}`,
      summary: 'Update a guard rule',
      body: UpdateGuardRuleRequest,
      responses: { 200: { description: 'The updated rule', schema: GuardRuleResponse }, 404: NOT_FOUND },
      async handle(context) {
        const { caller, params } = context
        const rule = await change(deps, context, async ({ tx, record }) => {
          const before = await getGuardRule(tx, caller.tenantId, params.ruleId)
          const body = changesIn(context.body, GUARD_RULE_READ_ONLY, before)
          const document = toDocument(before, body)
          requireUsable(document)
          await updateGuardRule(tx, {
            tenant_id: caller.tenantId,
            id: before.id,
            document: JSON.stringify(document),
            updated_at: isoTime(clock.now()),
          })
          await record({ ...activityOn(before, 'update'), metadata: toFacts(body) })
          return getGuardRule(tx, caller.tenantId, before.id)
        })
        guardRules.forget(caller.tenantId)
        const message = 'Guard rule updated'
        return reply(200, { success: true, message, rule } satisfies z.input<typeof GuardRuleResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: `${BASE}/{ruleId}`,
      summary: 'Delete a guard rule',
      responses: { 200: { description: 'The rule was deleted', schema: DoneResponse }, 404: NOT_FOUND },
      async handle(context) {
        const { caller, params } = context
        await change(deps, context, async ({ tx, record }) => {
          const rule = await getGuardRule(tx, caller.tenantId, params.ruleId)
          await deleteGuardRule(tx, caller.tenantId, rule.id)
          await record(activityOn(rule, 'delete'))
        })
        guardRules.forget(caller.tenantId)
        return reply(200, { success: true, message: 'Guard rule deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

/**
 * The maximum body size. It is large enough for samples of the maximum total length, even if JSON escapes every
 * character.
 */
const SIMULATE_BODY_BYTES = 1_048_576

/**
 * Returns the log fields of a rule or a change. Words and pattern may be confidential, so only the number of words and
 * the length of the pattern are logged.
 */
const toFacts = ({ words, pattern, ...facts }: GuardRuleDocument | GuardRuleChanges) => ({
  ...facts,
  words: words?.length,
  patternChars: pattern?.length,
})

/** Finds a rule by id or name, case-insensitive. @throws GUARD_RULE_NOT_FOUND */
async function getGuardRule(db: Db, tenantId: string, reference: string | undefined): Promise<GuardRule> {
  const rule = await findGuardRule(db, tenantId, toPolicyId(reference ?? ''))
  if (rule) return rule
  throw new GatewayError('GUARD_RULE_NOT_FOUND', `Guard rule not found. GET ${BASE} lists all guard rules.`)
}

/** Applies the request's changes to the rule. @throws VALIDATION_ERROR if fields are inconsistent */
function toDocument(before: GuardRule, changes: GuardRuleChanges): GuardRuleDocument {
  const { id: _, name: _name, createdAt: _createdAt, updatedAt: _updatedAt, ...document } = before
  const named = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
  const { success, data, error } = GuardRuleDocument.safeParse({ ...document, ...named })
  if (success) return data
  const issue = error.issues[0]
  throw invalidField(String(issue?.path[0] ?? 'rule'), issue?.message ?? 'the fields of the rule contradict each other')
}

/** @throws VALIDATION_ERROR if the pattern cannot be used */
function requireUsable(document: GuardRuleDocument): void {
  try {
    createRuleDetector(document, 'rule')
  } catch (error) {
    if (error instanceof PatternRefused) throw invalidField('pattern', error.message, document.pattern ?? undefined)
    throw error
  }
}

const activityOn = ({ id, name }: Pick<GuardRule, 'id' | 'name'>, operation: 'create' | 'update' | 'delete') =>
  ({
    type: 'guard_rule_management',
    operation,
    resourceType: 'guard_rule',
    resourceId: id,
    description: `${operation}d guard rule "${name}"`,
  }) as const
