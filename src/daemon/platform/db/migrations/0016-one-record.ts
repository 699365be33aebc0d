import type { MigrationStep } from '../migration-step.ts'

/** The receipt of a request contains its bill, so the separate table of bills is dropped. No route reads it. */
export const oneRecord: MigrationStep = () => ['drop table usage_records']
