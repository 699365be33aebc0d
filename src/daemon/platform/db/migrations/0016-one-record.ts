import type { MigrationStep } from '../migration-step.ts'

/** The receipt of a request contains its bill, so the bills' own table goes. No route reads it. */
export const oneRecord: MigrationStep = () => ['drop table usage_records']
