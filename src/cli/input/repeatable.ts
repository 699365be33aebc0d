import type { Option } from 'commander'

/** An option that may be given several times; its value is the list of all. */
export const repeatable = (option: Option): Option =>
  option.default([]).argParser((value: string, all: string[]) => [...all, value])
