// Configuration of licences and points.
import { LICENSES, type License } from '../../shared/wire/users.ts'

export type LicensePools = Readonly<Record<License, number>>
export type PointAllowances = { readonly [Tier in License]?: number | null | undefined }

/** Creates licence pools of these sizes. An omitted licence is unlimited (0). */
export const licensePools = (sizes: { [Tier in License]?: number | undefined } = {}): LicensePools =>
  Object.fromEntries(LICENSES.map((license) => [license, sizes[license] ?? 0])) as Record<License, number>
