/** One result of `aigw doctor`. */
export type Finding = {
  check: string
  status: 'ok' | 'warn' | 'fail'
  detail: string
  /** The command or the change that repairs it. Empty if nothing is wrong. */
  remedy: string
}

export const ok = (check: string, detail: string): Finding => ({ check, status: 'ok', detail, remedy: '' })
export const warn = (check: string, detail: string, remedy: string): Finding => ({
  ...{ check, detail, remedy },
  status: 'warn',
})
export const fail = (check: string, detail: string, remedy: string): Finding => ({
  ...{ check, detail, remedy },
  status: 'fail',
})
