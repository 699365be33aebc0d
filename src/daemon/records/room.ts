// The records module: the ledger, and the signed evidence that the ledger stores with each commit.
import type { LookupFunction } from 'node:net'
import type { Registry } from 'prom-client'
import { Agent } from 'undici'
import { EVIDENCE_KEY_CACHE_MS, PUBLIC_PROOF_RATE } from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'
import type { LossCause } from '../../shared/wire/evidence.ts'
import type { Db } from '../platform/db/db.ts'
import { createFreshCache } from '../platform/db/fresh-cache.ts'
import type { Route } from '../platform/http/route.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import { lookupWith } from '../platform/network/names.ts'
import type { MasterKeyRotation } from '../platform/secrets/rotation.ts'
import type { MasterKey } from '../platform/secrets/seal.ts'
import type { SealedColumn } from '../platform/secrets/sealed-column.ts'
import type { ChangeDeps } from './audit/change.ts'
import { masterKeyRoutes } from './audit/master-key-routes.ts'
import { DEFAULT_EVIDENCE, type EvidenceConfig } from './config.ts'
import { createRejectionReports, type RejectionReports } from './events/rejections.ts'
import { chainRoutes } from './evidence/chain-routes.ts'
import { startComparison } from './evidence/checkpoint-file.ts'
import { type CheckpointPublisher, createCheckpointPublisher } from './evidence/checkpoint-publisher.ts'
import { createCheckpoints } from './evidence/checkpoints.ts'
import { openDaemonId } from './evidence/daemon-id.ts'
import { createFileMemory } from './evidence/file-losses.ts'
import { createIntegrity } from './evidence/integrity.ts'
import { createLogProjector } from './evidence/log-projector.ts'
import { lossRoutes } from './evidence/loss-routes.ts'
import { createLosses } from './evidence/losses.ts'
import { publicEvidenceRoutes } from './evidence/public-routes.ts'
import { receiptRoutes } from './evidence/receipt-routes.ts'
import { createRetention } from './evidence/retention.ts'
import { createSealer } from './evidence/sealing.ts'
import { openSigningKeys, PRIVATE_KEY_COLUMN, type SigningKeys } from './evidence/signing-keys.ts'
import { signingRoutes } from './evidence/signing-routes.ts'
import { checkHistory } from './evidence/start-check.ts'
import { tileRoutes } from './evidence/tile-routes.ts'
import { transparencyRoutes } from './evidence/transparency-routes.ts'
import { createWitnessMetrics } from './evidence/witness-metrics.ts'
import { createWitnesses } from './evidence/witnesses.ts'
import { createLedger, type Ledger } from './ledger/ledger.ts'
import { purgeProviderMessages } from './logs/provider-messages.ts'
import { type LogDeps, logRoutes } from './logs/routes.ts'
import { usageRoutes } from './usage/routes.ts'

export type RecordsRoom = {
  ledger: Ledger
  signingKeys: SigningKeys
  /** Whether receipts are served. */
  receipts: boolean
  /** The causes of the losses of evidence that no operator has acknowledged. @throws errors of the store */
  lostHistory(): LossCause[] | Promise<LossCause[]>
  /** Calls `listener` after each commit that stored events for webhooks. */
  onEvents(listener: () => void): void
  /** Notifies the listeners of `onEvents`. Call this after storing events without the ledger. */
  announceEvents(): void
  /** Counts rejected requests per client address, and reports addresses with many. */
  rejections: Pick<RejectionReports, 'counter'>
  /**
   * @param access the dependencies of changes in this module, and the lookup of user names; a higher layer provides
   * this lookup
   */
  routes(access: ChangeDeps & Pick<LogDeps, 'findUserNames'> & { rotation: MasterKeyRotation }): Route[]
  sealedColumns: readonly SealedColumn[]
  jobs: Job[]
  close(): Promise<void>
}

/**
 * Opens the signing keys and compares the store with its published checkpoints. @throws if the keys cannot be opened
 */
export async function openRecords(
  { evidence = DEFAULT_EVIDENCE, dataDir, trustedProxies }: RecordsConfig,
  {
    db,
    masterKey,
    clock,
    log,
    resolve,
    metrics,
    witnessTargets,
  }: {
    db: Db
    masterKey: MasterKey
    clock: Clock
    log: Log
    resolve: ResolveHost
    metrics: Registry
    /** Decides which addresses of witnesses may be called. */
    witnessTargets: WitnessTargets
  },
): Promise<RecordsRoom> {
  const { checkpointFile: file, checkpointUrl: url, receipts } = evidence
  const daemonId = await openDaemonId(dataDir)
  const losses = createLosses({ db, clock, log })
  // Before the first key is created and before the first entry is signed, because both would hide a loss.
  await losses.report(await checkHistory({ db, clock, file, daemonId }))
  const openCauses = await losses.openCauses()
  if (openCauses.length > 0)
    log.error({ causes: openCauses }, 'history is lost and not acknowledged; run "aigw audit losses"')
  const signingKeys = await openSigningKeys(db, { masterKey, name: evidence.name, clock, log })
  const listeners: (() => void)[] = []
  const announceEvents = () => {
    for (const listener of listeners) listener()
  }
  const dispatcher = new Agent({ connect: { lookup: lookupWith(resolve) } })
  const fileMemory = file === undefined ? undefined : createFileMemory({ db, clock, file, daemonId, losses })
  const toWitnesses = new Agent({ connect: { lookup: witnessTargets.lookup } })
  const witnesses = createWitnesses({
    ...{ db, clock, log, losses, keys: signingKeys },
    dispatcher: toWitnesses,
    checkTarget: witnessTargets.check,
    witnesses: evidence.witnesses,
    metrics: createWitnessMetrics([metrics]),
  })
  const notes = createCheckpointPublisher({ file, url, log, fileMemory, dispatcher })
  const publisher: CheckpointPublisher = {
    ...notes,
    async publish(checkpoint) {
      await notes.publish(checkpoint)
      witnesses.offer(checkpoint)
    },
  }
  const checkpoints = createCheckpoints({ db, clock, log, keys: signingKeys, losses, publisher })
  const comparison = startComparison({ db, file, keys: signingKeys, losses, fileMemory, publisher, log })
  const projector = createLogProjector({ db, clock, log })
  const sealer = createSealer({
    ...{ db, clock, keys: signingKeys, daemonId, successors: losses.successors },
    onGrowth: checkpoints.wake,
    onStored: projector.follow,
  })
  const ledger = createLedger({ db, clock, log, sealer, onEvents: announceEvents })
  const rejections = createRejectionReports({ db, clock, log, announceEvents })
  const retention = createRetention({ db, clock, days: evidence.retentionDays })
  const integrity = createIntegrity({ db, clock, keys: signingKeys })
  const isDoubted = async () => (await comparison.hasFailed()) || (await losses.openCauses()).length > 0
  const keySet = createFreshCache({ clock, maxAgeMs: EVIDENCE_KEY_CACHE_MS, load: () => signingKeys.published() })
  return {
    ledger,
    signingKeys,
    receipts,
    lostHistory: losses.openCauses,
    onEvents: (listener) => void listeners.push(listener),
    announceEvents,
    rejections,
    routes: ({ findUserNames, rotation, ...access }) => [
      ...logRoutes({ db, clock, findUserNames }),
      ...receiptRoutes({ db, enabled: receipts }),
      ...transparencyRoutes({ db, clock, integrity, isDoubted }),
      ...chainRoutes({ db }),
      ...tileRoutes({ db, clock, isPublic: evidence.publishTiles, trustedProxies }),
      ...usageRoutes({ db, clock }),
      ...lossRoutes({ ...access, losses }),
      ...signingRoutes({ ...access, signingKeys, checkpoints, keySet }),
      ...masterKeyRoutes({ ...access, rotation }),
      ...publicEvidenceRoutes({
        ...{ db, clock, keys: signingKeys, keySet, trustedProxies },
        countRejection: rejections.counter('public_verification', PUBLIC_PROOF_RATE),
      }),
    ],
    sealedColumns: [PRIVATE_KEY_COLUMN],
    jobs: [
      { name: 'make-checkpoints', cron: '* * * * *', run: checkpoints.run },
      { name: 'cosign-checkpoints', cron: '* * * * *', run: witnesses.run },
      { name: 'summarise-log', cron: '* * * * *', run: projector.run },
      { name: 'expunge-evidence', cron: '20 * * * *', run: retention.run },
      {
        name: 'purge-provider-messages',
        cron: '25 * * * *',
        run: () => purgeProviderMessages({ db, clock, retentionDays: evidence.retentionDays }),
      },
    ],
    async close() {
      await rejections.close()
      await ledger.close()
      await projector.close()
      await comparison.close()
      await checkpoints.close()
      await witnesses.close()
      await dispatcher.destroy()
      await toWitnesses.destroy()
    },
  }
}

type WitnessTargets = { check(url: string): Promise<void>; lookup: LookupFunction }

type RecordsConfig = {
  evidence?: EvidenceConfig | undefined
  /** The directory in which the id of this daemon is stored. */
  dataDir: string
  trustedProxies?: readonly string[] | undefined
}
