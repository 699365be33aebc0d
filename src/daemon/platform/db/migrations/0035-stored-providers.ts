import type { MigrationStep } from '../migration-step.ts'

/** Providers that the operator adds through the API. They belong to the installation, so they have no tenant. */
export const storedProviders: MigrationStep = ({ text, tableEnd }) => [
  `create table stored_providers (
    name ${text} primary key,
    sealed ${text} not null,
    created_at ${text} not null,
    updated_at ${text} not null
  )${tableEnd}`,
]
