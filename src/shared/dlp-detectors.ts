/** What finds secrets, marks of confidential documents and programs without a pattern of one's own. */
export const DLP_DETECTOR_NAMES = ['secrets', 'document-markings', 'source-code'] as const
export type DlpDetectorName = (typeof DLP_DETECTOR_NAMES)[number]

/** Those of a policy that names none. Source code is in most answers about programs, so whoever guards it says so. */
export const DEFAULT_DLP_DETECTORS: readonly DlpDetectorName[] = ['secrets', 'document-markings']
