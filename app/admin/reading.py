"""An administrator's reading of what people say: only where the setting `admin_reads_messages` allows it, and never unnoted.

Called by the routes of this room. The entry in the audit log is durable before anything is read; what is read then is what its
owner would see. Some hosts must be able to, others must not (open-webui/open-webui#681, open-webui/open-webui#12448).
"""

from __future__ import annotations

from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.audit.service import AuditLog
from app.conversations.export import ConversationExport
from app.conversations.listing import Narrowing
from app.conversations.schemas import ConversationList, ExportFormat, MessageList
from app.conversations.service import ConversationService
from app.database import Database
from app.errors import Forbidden, NotFound
from app.identifiers import UserId, is_id
from app.settings import Settings


class MessageReading:
    """Owns the rule. Does not own conversations."""

    def __init__(
        self,
        database: Database,
        conversations: ConversationService,
        accounts: AccountService,
        audit: AuditLog,
        settings: Settings,
    ) -> None:
        self._database = database
        self._conversations = conversations
        self._accounts = accounts
        self._audit = audit
        self._allowed = settings.admin_reads_messages

    async def conversations_of(
        self, caller: Identity, user_id: str, *, limit: int, cursor: str | None
    ) -> ConversationList:
        """A page of somebody's conversations, whose titles are what people said. Raises Forbidden or NotFound."""
        self._require_allowed()
        if not is_id(user_id) or not await self._accounts.existing({user_id}):
            raise NotFound("there is no such account")
        await self._note(caller, "conversation.list", user_id, user_id)
        return await self._conversations.page(UserId(user_id), Narrowing(), limit=limit, cursor=cursor)

    async def messages(
        self, caller: Identity, conversation_id: str, *, leaf_id: str | None, limit: int, cursor: str | None
    ) -> MessageList:
        """A page of a path to a leaf, the newest message first. Raises Forbidden or NotFound."""
        owner = await self._opened(caller, "conversation.read", conversation_id)
        return await self._conversations.messages(owner, conversation_id, leaf_id=leaf_id, limit=limit, cursor=cursor)

    async def export(self, caller: Identity, conversation_id: str, export_format: ExportFormat) -> ConversationExport:
        """A file of the whole tree. Raises Forbidden or NotFound."""
        owner = await self._opened(caller, "conversation.export", conversation_id)
        return await self._conversations.export(owner, conversation_id, export_format)

    async def _opened(self, caller: Identity, action: str, conversation_id: str) -> UserId:
        self._require_allowed()
        found = await self._conversations.existing({conversation_id}) if is_id(conversation_id) else set()
        if not found:
            raise NotFound("there is no such conversation")
        ((owner, _),) = found
        await self._note(caller, action, conversation_id, owner)
        return UserId(owner)

    async def _note(self, caller: Identity, action: str, target_id: str, owner: str) -> None:
        async with self._database.write() as session:
            self._audit.record(session, caller, action, target_id, user_id=owner)

    def _require_allowed(self) -> None:
        if not self._allowed:
            raise Forbidden(
                "administrators of this server do not read what people say (KVASIR_ADMIN_READS_MESSAGES)",
                code="admin_reading_off",
            )
