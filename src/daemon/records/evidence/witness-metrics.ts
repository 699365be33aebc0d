// Counts requests to witnesses for monitoring.
import { Counter, Gauge, type Registry } from 'prom-client'

export type WitnessMetrics = {
  ended(witness: string, outcome: 'cosigned' | 'refused' | 'contradicted' | 'failed'): void
  /** Sets the number of chains whose last checkpoint waits for the witness. */
  waiting(witness: string, chains: number): void
}

export function createWitnessMetrics(registers: Registry[]): WitnessMetrics {
  const outcomes = new Counter({
    name: 'aigw_evidence_cosignatures_total',
    help: 'Attempts to get a checkpoint cosigned, by witness and outcome.',
    labelNames: ['witness', 'outcome'],
    registers,
  })
  const waiting = new Gauge({
    name: 'aigw_evidence_cosignatures_waiting',
    help: 'Logs whose last checkpoint waits for a cosignature, by witness.',
    labelNames: ['witness'],
    registers,
  })
  return {
    ended: (witness, outcome) => outcomes.inc({ witness, outcome }),
    waiting: (witness, chains) => waiting.set({ witness }, chains),
  }
}
