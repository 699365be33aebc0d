/** What finds secrets, marks of confidential documents and programs without a pattern of one's own. */
export const DLP_DETECTOR_NAMES = ['secrets', 'document-markings', 'source-code'] as const
